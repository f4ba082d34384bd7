package steps;

import static steps.Clients.PARTITIONS;
import static steps.Clients.at;
import static steps.Clients.member;
import static steps.Clients.partitions;
import static steps.Clients.poll;
import static steps.Day.PREFIX;
import static steps.Day.equal;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;

/** Steps about members of a group and what they commit. */
final class Groups {
    final String sharedTopic = PREFIX + "-shared";

    /** What was taken from a member. */
    private static final class Taken implements ConsumerRebalanceListener {
        final Set<Integer> revoked = new TreeSet<>();
        final List<TopicPartition> lost = new ArrayList<>();

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> revoked.add(partition.partition()));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost.addAll(partitions);
        }
    }

    String rebalance() throws Exception {
        Clients.create(sharedTopic, PARTITIONS);
        Account account = new Account();
        Account.Reading reading = account.read();
        String group = PREFIX + "-shared";
        try (Producer<byte[], byte[]> to = Clients.producer();
                Consumer<byte[], byte[]> first = member(group, sharedTopic)) {
            Clients.untilItHasAll(first);
            try (Consumer<byte[], byte[]> second = member(group, sharedTopic)) {
                Clients.untilShared(first, second);
                Clients.send(to, sharedTopic, account, Message.batch("shared", 90));
                Clients.readAll("both members read what was produced", reading, first, second);
            }
            Clients.untilItHasAll(first);
            Clients.send(to, sharedTopic, account, Message.batch("alone", 90));
            Clients.readAll("the first member reads all partitions", reading, first);
        }
        return "";
    }

    /** A member with a group.instance.id is away for a moment: same partitions, no rebalance for the other. */
    String staticMember() {
        String group = PREFIX + "-static";
        Taken taken = new Taken();
        try (Consumer<byte[], byte[]> steady = Clients.consumer(group, "group.instance.id", "steady")) {
            steady.subscribe(List.of(sharedTopic), taken);
            Set<Integer> had;
            try (Consumer<byte[], byte[]> away = member(group, sharedTopic, "group.instance.id", "away")) {
                Clients.untilShared(steady, away);
                had = partitions(away);
            }
            Set<Integer> kept = partitions(steady);
            taken.revoked.clear();
            try (Consumer<byte[], byte[]> back = member(group, sharedTopic, "group.instance.id", "away")) {
                Clients.untilShared(steady, back);
                equal("partitions of the member that was away", partitions(back), had);
                equal("partitions of the other", partitions(steady), kept);
                equal("partitions that were revoked from the other", taken.revoked, Set.of());
            }
        }
        return "back with the same partitions, no rebalance";
    }

    /** Cooperative rebalancing: the first member keeps the partitions that it need not give away. */
    String incrementalAssign() {
        String group = PREFIX + "-cooperative";
        String[] settings = {
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"};
        Taken taken = new Taken();
        int given;
        try (Consumer<byte[], byte[]> first = Clients.consumer(group, settings)) {
            first.subscribe(List.of(sharedTopic), taken);
            Day.until("the first member has all partitions", () -> {
                poll(first);
                return partitions(first).equals(Clients.ALL);
            });
            try (Consumer<byte[], byte[]> second = member(group, sharedTopic, settings)) {
                Clients.untilShared(first, second);
                equal("partitions that were revoked", taken.revoked, partitions(second));
                equal("partitions that were lost", taken.lost, List.of());
                given = taken.revoked.size();
            }
            Day.until("the first member has all partitions back", () -> {
                poll(first);
                return partitions(first).equals(Clients.ALL);
            });
        }
        return "cooperative-sticky, " + given + " of 3 revoked";
    }

    /** The group protocol of KIP-848: members share, are served by pattern, and commit with their epochs. */
    String consumerProtocol() throws Exception {
        String group = PREFIX + "-kip-848";
        String topic = PREFIX + "-kip-848";
        Clients.create(topic, PARTITIONS);
        Account account = new Account();
        Account.Reading reading = account.read();
        try (Producer<byte[], byte[]> to = Clients.producer();
                Consumer<byte[], byte[]> first = Clients.newProtocol(group)) {
            first.subscribe(new SubscriptionPattern(topic + ".*"));
            Clients.untilItHasAll(first);
            try (Consumer<byte[], byte[]> second = Clients.newProtocol(group)) {
                second.subscribe(List.of(topic));
                Clients.untilShared(first, second);
                Clients.send(to, topic, account, Message.batch("shared", 90));
                Clients.readAll("both members read what was produced", reading, first, second);
                first.commitSync();
                second.commitSync();
            }
            Clients.untilItHasAll(first);
            Map<TopicPartition, OffsetAndMetadata> committed = first.committed(first.assignment());
            committed.values().forEach(offset -> equal("committed offset", offset.offset(), 30L));
            Clients.send(to, topic, account, Message.batch("alone", 90));
            Clients.readAll("the first member reads all partitions", reading, first);
        }
        return "by name and by pattern";
    }

    String commit(String topic) {
        String group = PREFIX + "-commit";
        Map<TopicPartition, OffsetAndMetadata> asked = new HashMap<>();
        Map<Integer, Long> offsets = Map.of(0, 50L, 1, 20L, 2, 30L);
        offsets.forEach((partition, offset) ->
            asked.put(at(topic, partition), new OffsetAndMetadata(offset, "at " + offset)));
        try (Consumer<byte[], byte[]> consumer = member(group, topic, "enable.auto.commit", "false")) {
            Day.until("a member that reads", () -> !poll(consumer).isEmpty());
            consumer.commitSync(asked);
        }
        try (Consumer<byte[], byte[]> consumer = member(group, topic, "enable.auto.commit", "false")) {
            equal("committed", consumer.committed(asked.keySet()), asked);
            Map<Integer, Long> first = new HashMap<>();
            Day.until("a record of each partition", () -> {
                poll(consumer).forEach(record -> first.putIfAbsent(record.partition(), record.offset()));
                return first.size() == PARTITIONS;
            });
            equal("first offsets of the new member", first, offsets);
        }
        return "";
    }
}
