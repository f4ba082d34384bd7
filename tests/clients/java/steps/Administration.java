package steps;

import static steps.Clients.at;
import static steps.Clients.get;
import static steps.Clients.member;
import static steps.Clients.partitions;
import static steps.Day.PREFIX;
import static steps.Day.check;
import static steps.Day.equal;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.TopicExistsException;

/** What the admin client has for what the day left behind. */
final class Administration {
    private final String topic;
    private final String sharedTopic;
    private final String killTopic;
    private final String timesTopic;
    private final String group;
    private final String live = PREFIX + "-live";
    private Admin admin;

    Administration(Messages messages, Groups groups) {
        topic = messages.topic;
        killTopic = messages.killTopic;
        timesTopic = messages.timesTopic;
        group = messages.killGroup;
        sharedTopic = groups.sharedTopic;
    }

    String administer() {
        Day.Chores chores = new Day.Chores();
        try (Admin opened = Clients.admin(); Consumer<byte[], byte[]> used = member(live, topic)) {
            admin = opened;
            Day.until("a live member", () -> {
                Clients.poll(used);
                return !partitions(used).isEmpty();
            });
            chores.chore("describe cluster", this::describeCluster);
            chores.chore("list topics", this::listTopics);
            chores.chore("refuse a topic that exists", this::refuseTopic);
            chores.chore("list groups", this::listGroups);
            chores.chore("describe groups", this::describeGroups);
            chores.chore("describe topic configs", this::describeTopicConfigs);
            chores.chore("describe node configs", this::describeNodeConfigs);
            chores.chore("incremental alter configs", this::alterConfigs);
            chores.chore("create partitions", this::createPartitions);
            chores.chore("delete records", this::deleteRecords);
            chores.chore("describe producers", this::describeProducers);
            chores.chore("list group offsets", this::listGroupOffsets);
            chores.chore("alter group offsets", this::alterGroupOffsets);
            chores.chore("delete group offsets", this::deleteGroupOffsets);
            chores.chore("refuse to delete offsets in use", this::refuseOffsets);
            chores.chore("refuse to delete a group in use", this::refuseGroup);
            chores.chore("remove members", this::removeMembers);
            chores.chore("delete group", this::deleteGroup);
            chores.chore("delete topic by name", this::deleteTopic);
            chores.chore("delete topic by id", this::deleteTopicById);
        }
        return chores.detail();
    }

    private void describeCluster() throws Exception {
        equal("nodes", get(admin.describeCluster().nodes()).size(), Day.NODES);
        check(!get(admin.describeCluster().clusterId()).isEmpty(), "no cluster id");
    }

    private void listTopics() throws Exception {
        Set<String> names = get(admin.listTopics().names());
        check(names.containsAll(Set.of(topic, sharedTopic, killTopic, timesTopic)), "topics: " + names);
    }

    private void refuseTopic() {
        refused(TopicExistsException.class,
            () -> get(admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all()));
    }

    private void listGroups() throws Exception {
        Map<String, Optional<GroupState>> states = new HashMap<>();
        for (GroupListing listing : get(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all())) {
            check(states.put(listing.groupId(), listing.groupState()) == null, listing + " is listed twice");
        }
        equal("state of a group in use", states.get(live), Optional.of(GroupState.STABLE));
        equal("state of a group without members", states.get(group), Optional.of(GroupState.EMPTY));
        ListGroupsOptions stable = ListGroupsOptions.forConsumerGroups().inGroupStates(Set.of(GroupState.STABLE));
        Set<String> found = new TreeSet<>();
        get(admin.listGroups(stable).all()).forEach(listing -> found.add(listing.groupId()));
        // Static members that went away keep their group stable until their session ends.
        check(found.contains(live) && !found.contains(group), "stable groups: " + found);
    }

    private void describeGroups() throws Exception {
        var found = get(admin.describeConsumerGroups(List.of(live, group)).all());
        ConsumerGroupDescription used = found.get(live);
        equal("state", used.groupState(), GroupState.STABLE);
        equal("members", used.members().size(), 1);
        used.members().forEach(one -> {
            equal("client id", one.clientId(), PREFIX);
            equal("assigned", one.assignment().topicPartitions(), Set.of(at(topic, 0), at(topic, 1), at(topic, 2)));
        });
        equal("state without members", found.get(group).groupState(), GroupState.EMPTY);
    }

    private Config config(ConfigResource resource) throws Exception {
        return get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    }

    private void describeTopicConfigs() throws Exception {
        Config found = config(new ConfigResource(ConfigResource.Type.TOPIC, topic));
        for (String name : List.of("retention.ms", "cleanup.policy", "max.message.bytes")) {
            check(found.get(name) != null, "no " + name + " in " + found);
        }
        check(found.get("retention.ms").isDefault(), "retention.ms is no default before it was set");
    }

    private void describeNodeConfigs() throws Exception {
        int node = get(admin.describeCluster().controller()).id();
        Config found = config(new ConfigResource(ConfigResource.Type.BROKER, "" + node));
        check(!found.entries().isEmpty(), "the node has no settings");
    }

    private void alterConfigs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        alter(resource, "3600000", AlterConfigOp.OpType.SET);
        ConfigEntry set = config(resource).get("retention.ms");
        equal("retention.ms", set.value(), "3600000");
        equal("where it comes from", set.source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        alter(resource, null, AlterConfigOp.OpType.DELETE);
        check(config(resource).get("retention.ms").isDefault(), "retention.ms is no default after it was deleted");
    }

    private void alter(ConfigResource resource, String value, AlterConfigOp.OpType how) throws Exception {
        var change = List.of(new AlterConfigOp(new ConfigEntry("retention.ms", value), how));
        get(admin.incrementalAlterConfigs(Map.of(resource, change)).all());
    }

    private void createPartitions() throws Exception {
        get(admin.createPartitions(Map.of(sharedTopic, NewPartitions.increaseTo(6))).all());
        Day.until("six partitions in the metadata", () -> {
            try {
                var found = get(admin.describeTopics(List.of(sharedTopic)).allTopicNames()).get(sharedTopic);
                return found.partitions().size() == 6;
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
        try (Producer<byte[], byte[]> to = Clients.producer()) {
            equal("offset in a partition that was added",
                get(to.send(new ProducerRecord<>(sharedTopic, 5, null, new byte[] {1}))).offset(), 0L);
        }
        refused(InvalidPartitionsException.class,
            () -> get(admin.createPartitions(Map.of(sharedTopic, NewPartitions.increaseTo(2))).all()));
    }

    private void deleteRecords() throws Exception {
        TopicPartition there = at(topic, 0);
        var deleted = admin.deleteRecords(Map.of(there, RecordsToDelete.beforeOffset(10)));
        equal("low watermark", get(deleted.lowWatermarks().get(there)).lowWatermark(), 10L);
        var earliest = admin.listOffsets(Map.of(there, OffsetSpec.earliest()));
        equal("earliest", get(earliest.partitionResult(there)).offset(), 10L);
    }

    private void describeProducers() throws Exception {
        TopicPartition there = at(killTopic, 0);
        var found = get(admin.describeProducers(List.of(there)).partitionResult(there));
        // Iggy tells of none.
        equal("idempotent producers of " + there, found.activeProducers().size(), Day.ON_IGGY ? 0 : 1);
        if (Day.ON_IGGY) {
            return;
        }
        equal("last sequence", found.activeProducers().get(0).lastSequence(), 149);
    }

    private Map<Integer, Long> groupOffsets() throws Exception {
        Map<Integer, Long> offsets = new TreeMap<>();
        get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
            .forEach((where, found) -> offsets.put(where.partition(), found.offset()));
        return offsets;
    }

    private void listGroupOffsets() throws Exception {
        equal("offsets of the group", groupOffsets(), Map.of(0, 150L, 1, 150L, 2, 150L));
    }

    private void alterGroupOffsets() throws Exception {
        get(admin.alterConsumerGroupOffsets(group, Map.of(at(killTopic, 1), new OffsetAndMetadata(7))).all());
        equal("offsets of the group", groupOffsets(), Map.of(0, 150L, 1, 7L, 2, 150L));
    }

    private void deleteGroupOffsets() throws Exception {
        get(admin.deleteConsumerGroupOffsets(group, Set.of(at(killTopic, 2))).all());
        equal("offsets of the group", groupOffsets(), Map.of(0, 150L, 1, 7L));
    }

    private void refuseOffsets() {
        refused(GroupSubscribedToTopicException.class,
            () -> get(admin.deleteConsumerGroupOffsets(live, Set.of(at(topic, 0))).all()));
    }

    private void refuseGroup() {
        refused(GroupNotEmptyException.class, () -> get(admin.deleteConsumerGroups(List.of(live)).all()));
    }

    private void removeMembers() throws Exception {
        get(admin.removeMembersFromConsumerGroup(live, new RemoveMembersFromConsumerGroupOptions()).all());
        var found = get(admin.describeConsumerGroups(List.of(live)).all()).get(live);
        equal("members that were removed", found.members(), List.of());
    }

    private void deleteGroup() throws Exception {
        get(admin.deleteConsumerGroups(List.of(group)).all());
        for (GroupListing listing : get(admin.listGroups().all())) {
            check(!listing.groupId().equals(group), "the deleted group is listed");
        }
        equal("its offsets", groupOffsets(), Map.of());
    }

    private void deleteTopic() throws Exception {
        get(admin.deleteTopics(List.of(timesTopic)).all());
        untilGone(timesTopic);
    }

    private void deleteTopicById() throws Exception {
        Uuid id = get(admin.describeTopics(List.of(killTopic)).allTopicNames()).get(killTopic).topicId();
        get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        untilGone(killTopic);
    }

    private void untilGone(String name) {
        Day.until("a deleted topic is gone", () -> {
            try {
                return !get(admin.listTopics().names()).contains(name);
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
    }

    private static void refused(Class<? extends Exception> expected, Day.Work work) {
        try {
            work.run();
        } catch (ExecutionException refusal) {
            check(expected.isInstance(refusal.getCause()), "refused with " + refusal.getCause());
            return;
        } catch (Exception error) {
            throw new AssertionError(error);
        }
        throw new AssertionError("taken, and should be refused with " + expected.getSimpleName());
    }
}
