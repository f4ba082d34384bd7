package day

import (
	"fmt"
	"reflect"
	"sync"
)

// Header is one of a record's; names may come again.
type Header struct {
	Name  string
	Value []byte
}

// Record is what a producer gives and a consumer must give back. A nil key or value is Kafka's null.
type Record struct {
	Key     []byte
	Value   []byte
	Headers []Header
}

func (r Record) String() string {
	return fmt.Sprintf("{key %s, value %s, headers %v}", shown(r.Key), shown(r.Value), r.Headers)
}

func shown(bytes []byte) string {
	if bytes == nil {
		return "null"
	}
	return fmt.Sprintf("%.40q", bytes)
}

// Delivered is a record as a consumer got it.
type Delivered struct {
	Partition int32
	Offset    int64
	Record    Record
}

// Placed is where an acknowledged record is.
type Placed struct {
	Partition int32
	Offset    int64
}

// records makes records with all that is odd about keys, values and headers. They differ where they can.
func records(label string, count int) []Record {
	made := make([]Record, count)
	for n := range made {
		tail := make([]byte, n%256)
		for at := range tail {
			tail[at] = byte(at)
		}
		record := Record{
			Key:     []byte(fmt.Sprintf("%s-key-%d", label, n)),
			Value:   append([]byte(fmt.Sprintf("%s-%d-", label, n)), tail...),
			Headers: []Header{{"n", []byte(fmt.Sprint(n))}, {"label", []byte(label)}},
		}
		switch n % 10 {
		case 1:
			record.Key = nil
		case 2:
			record.Value = []byte{}
		case 3:
			record.Value = nil
		case 4:
			record.Headers = []Header{{"again", []byte("1")}, {"other", []byte{0, 255}}, {"again", []byte("2")}, {"again", []byte("1")}}
		case 5:
			record.Key = []byte{}
		case 6:
			record.Headers = nil
		case 7:
			record.Headers = []Header{{"empty", []byte{}}, {"ключ", []byte("значение")}}
		case 8:
			record.Headers = []Header{{"null", nil}}
		}
		made[n] = record
	}
	return made
}

// account is what was acknowledged on a topic, by partition and offset.
type account struct {
	sent map[Placed]Record
	// A producer without idempotence may leave a second copy of what it sent while the gateway was killed.
	copies []Record
}

func newAccount() *account { return &account{sent: map[Placed]Record{}} }

func (a *account) acknowledge(sent []Record, placed []Placed) {
	equal("acknowledgements", len(placed), len(sent))
	for n, place := range placed {
		_, twice := a.sent[place]
		check(place.Offset >= 0, "acknowledged without an offset: %v", sent[n])
		check(!twice, "offset %d of partition %d was given twice", place.Offset, place.Partition)
		a.sent[place] = sent[n]
	}
}

// ends are the next offsets of the partitions.
func (a *account) ends() map[int32]int64 {
	ends := map[int32]int64{}
	for place := range a.sent {
		ends[place.Partition] = max(ends[place.Partition], place.Offset+1)
	}
	return ends
}

// reading is what consumers read of a topic. Everything must come once, in order, as it was sent. Members deliver
// from goroutines of their own; what is wrong is said by the step that waits for the reading.
type reading struct {
	account *account
	// How a record looks that went through this client.
	normal func(Record) Record

	guard sync.Mutex
	// Whether a record may come again, unchanged.
	again  bool
	seen   map[Placed]Record
	copied int
	last   map[lane]int64
	wrong  string
}

// lane is a partition as one member reads it.
type lane struct {
	reader    string
	partition int32
}

func (a *account) read(normal func(Record) Record) *reading {
	return &reading{account: a, normal: normal, seen: map[Placed]Record{}, last: map[lane]int64{}}
}

// add takes in what a member read. Whether it was acknowledged is looked at when the reading is compared: a record
// may be read before its producer hears that it is there.
func (r *reading) add(reader string, got Delivered) {
	r.guard.Lock()
	defer r.guard.Unlock()
	place := Placed{got.Partition, got.Offset}
	at := lane{reader, got.Partition}
	if before, twice := r.seen[place]; twice {
		if r.again && reflect.DeepEqual(before, got.Record) {
			r.last[at] = got.Offset
			return
		}
		r.blame("partition %d offset %d was read twice", got.Partition, got.Offset)
	}
	if last, read := r.last[at]; read && last >= got.Offset {
		r.blame("partition %d offset %d was read after %d", got.Partition, got.Offset, last)
	}
	r.seen[place] = got.Record
	r.last[at] = got.Offset
}

// allowAgain is for members that join anew and read again what they had not committed.
func (r *reading) allowAgain(again bool) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.again = again
}

func (r *reading) blame(format string, values ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, values...)
	}
}

// complete waits until all that was acknowledged is read, and nothing else.
func (r *reading) complete(what string) {
	check(len(r.account.sent) > 0, "%s: nothing was acknowledged that could be read", what)
	eventually(what, func() bool {
		r.guard.Lock()
		defer r.guard.Unlock()
		check(r.wrong == "", "%s: %s", what, r.wrong)
		for place := range r.account.sent {
			if _, read := r.seen[place]; !read {
				return false
			}
		}
		return true
	})
	r.guard.Lock()
	defer r.guard.Unlock()
	r.copied = 0
	for place, got := range r.seen {
		sent, acknowledged := r.account.sent[place]
		if acknowledged {
			check(reflect.DeepEqual(got, r.normal(sent)), "%s: partition %d offset %d is %v, sent was %v", what, place.Partition, place.Offset, got, sent)
			continue
		}
		check(r.isCopy(got), "%s: partition %d offset %d was never acknowledged: %v", what, place.Partition, place.Offset, got)
		r.copied++
	}
}

func (r *reading) isCopy(got Record) bool {
	for _, sent := range r.account.copies {
		if reflect.DeepEqual(got, r.normal(sent)) {
			return true
		}
	}
	return false
}

// next are the offsets after what was read.
func (r *reading) next() map[int32]int64 {
	r.guard.Lock()
	defer r.guard.Unlock()
	next := map[int32]int64{}
	for place := range r.seen {
		next[place.Partition] = max(next[place.Partition], place.Offset+1)
	}
	return next
}

// firsts are the lowest offsets that were read.
func (r *reading) firsts() map[int32]int64 {
	r.guard.Lock()
	defer r.guard.Unlock()
	firsts := map[int32]int64{}
	for place := range r.seen {
		if first, any := firsts[place.Partition]; !any || place.Offset < first {
			firsts[place.Partition] = place.Offset
		}
	}
	return firsts
}
