package day

// Client is a client library, by its own calls. A call that it lacks answers ErrMissing. Every error is awaited; nothing
// here may hang for longer than the client's own timeouts.
type Client interface {
	// Normal is how a record looks that went through the client: some tell no null from an empty value.
	Normal(Record) Record
	// Codecs that need nothing but the client.
	Codecs() []string
	// Idempotence tells whether the client has an idempotent producer.
	Idempotence() bool
	// StaticMembers tells whether members can have an instance id.
	StaticMembers() bool
	// Rereads tells whether a member that loses its connection joins anew, and reads again what it had not committed.
	Rereads() bool
	// Cooperative tells whether members can rebalance without giving up what they keep.
	Cooperative() bool

	Cluster() (Cluster, error)
	CreateTopic(topic string, partitions int) error
	// PartitionsOf a topic, by its metadata or description.
	PartitionsOf(topic string) (int, error)
	Topics() ([]string, error)

	Producer(ProducerOptions) (Producer, error)
	// Member joins a group at the earliest offsets, in the background, and gives all it reads to `read`, partition by
	// partition in order, from goroutines of its own. It commits only when told to.
	Member(MemberOptions, func(Delivered)) (Member, error)

	// Offset is one that the client looks up; -1 where there is none.
	Offset(topic string, partition int32, at When) (int64, error)
	// Committed offsets of a group on one topic.
	Committed(group, topic string) (map[int32]Committed, error)
	Admin
}

// Admin is the administration that goes beyond topics.
type Admin interface {
	// Groups and their states; "" where the client does not tell the state.
	Groups() (map[string]string, error)
	Group(group string) (Group, error)
	TopicSettings(topic string) (map[string]Setting, error)
	NodeSettings(node int32) (map[string]Setting, error)
	IncrementalAlter(topic, name, value string) error
	Alter(topic, name, value string) error
	CreatePartitions(topic string, total int) error
	DeleteRecords(topic string, partition int32, before int64) error
	AlterGroupOffset(group, topic string, partition int32, offset int64) error
	DeleteGroupOffset(group, topic string, partition int32) error
	DeleteGroup(group string) error
	// NonEmptyGroup is the error that DeleteGroup wraps when the group has members.
	NonEmptyGroup() error
	DeleteTopic(topic string) error
}

// Cluster is what metadata tells.
type Cluster struct {
	// ID is "" where the client does not tell it.
	ID         string
	Nodes      []int32
	Controller int32
}

// Group is a group as it is described.
type Group struct {
	State   string
	Members []GroupMember
}

// GroupMember is one of them.
type GroupMember struct {
	ClientID string
	Assigned map[string][]int32
}

// Setting is one of a topic or node.
type Setting struct {
	Value   string
	Default bool
}

// Committed is an offset with its metadata.
type Committed struct {
	Offset   int64
	Metadata string
}

// When is where an offset is looked up: Earliest, Latest, or a timestamp in milliseconds.
type When int64

const (
	// Latest is the offset of the next record.
	Latest When = -1
	// Earliest is the offset of the first record.
	Earliest When = -2
)

// ProducerOptions are what a producer is asked for; acks is always all.
type ProducerOptions struct {
	Idempotent bool
	// Codec is "", gzip, snappy, lz4 or zstd.
	Codec string
	// Timestamps are those of the records of every Send, in milliseconds; nil: now.
	Timestamps []int64
}

// Producer awaits the acknowledgement of everything.
type Producer interface {
	// Send places records as the client's own partitioner does; what it returns is in the order of the records.
	Send(topic string, records []Record) ([]Placed, error)
	Close() error
}

// MemberOptions are what a member is asked for.
type MemberOptions struct {
	Group, Topic string
	// Name is the client id, which tells members apart.
	Name string
	// Instance is the group.instance.id; "" for a dynamic member.
	Instance string
	// Strategy is an assignor's name in Kafka; "" for the client's default.
	Strategy string
	// Revoked hears of partitions that are taken away, where the client tells; may be nil.
	Revoked func([]int32)
}

// Member is a live member of a group.
type Member interface {
	// Assigned are the partitions it has now; empty while it has none.
	Assigned() []int32
	// Commit stores these offsets, with this metadata where the client's members can; it returns when they are
	// acknowledged.
	Commit(offsets map[int32]int64, metadata string) error
	// CommitsMetadata tells whether Commit stores metadata.
	CommitsMetadata() bool
	// Close leaves the group, unless the member is static.
	Close() error
}
