package steps;

import static steps.Clients.PARTITIONS;
import static steps.Clients.admin;
import static steps.Clients.at;
import static steps.Clients.get;
import static steps.Clients.member;
import static steps.Clients.producer;
import static steps.Day.PREFIX;
import static steps.Day.check;
import static steps.Day.equal;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/** Steps about topics and what is in them, also over a kill of the gateway. */
final class Messages {
    final String topic = PREFIX + "-records";
    final String killTopic = PREFIX + "-kill";
    final String timesTopic = PREFIX + "-times";
    final String killGroup = PREFIX + "-kill";
    private final Account sent = new Account();

    String connect() throws Exception {
        try (Admin admin = admin()) {
            DescribeClusterResult cluster = admin.describeCluster();
            Set<Integer> nodes = new TreeSet<>();
            get(cluster.nodes()).forEach(node -> nodes.add(node.id()));
            Node controller = get(cluster.controller());
            equal("nodes", nodes.size(), Day.NODES);
            check(nodes.contains(controller.id()), "controller " + controller + " is no node");
            return nodes.size() + " nodes, controller " + controller.id();
        }
    }

    String createTopic() throws Exception {
        Clients.create(topic, PARTITIONS);
        try (Admin admin = admin()) {
            TopicDescription found = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
            equal("partitions", found.partitions().size(), PARTITIONS);
            found.partitions().forEach(partition -> check(partition.leader() != null, "no leader: " + partition));
        }
        return "";
    }

    String produce() throws Exception {
        try (Producer<byte[], byte[]> plain = producer("enable.idempotence", "false")) {
            Clients.send(plain, topic, sent, Message.batch("plain", 300));
        }
        List<String> codecs = List.of("gzip", "snappy", "lz4", "zstd");
        for (String codec : codecs) {
            try (Producer<byte[], byte[]> packed = producer("compression.type", codec, "linger.ms", "50")) {
                Clients.send(packed, topic, sent, Message.batch(codec, 60));
            }
        }
        return String.join(", ", codecs);
    }

    String idempotent() throws Exception {
        try (Producer<byte[], byte[]> idempotent = producer()) {
            Clients.send(idempotent, topic, sent, Message.batch("idempotent", 100));
        }
        return "";
    }

    String consume() {
        readBack(PREFIX + "-group");
        return sent.size() + " records";
    }

    private void readBack(String group) {
        try (Consumer<byte[], byte[]> consumer = member(group, topic)) {
            Clients.readAll("reading everything back", sent.read(), consumer);
        }
    }

    String kill9() throws Exception {
        Clients.create(killTopic, PARTITIONS);
        Account account = new Account();
        Account.Reading reading = account.read();
        try (Producer<byte[], byte[]> to = producer();
                Consumer<byte[], byte[]> consumer = member(killGroup, killTopic, "enable.auto.commit", "false")) {
            Clients.send(to, killTopic, account, Message.batch("before", 150));
            Clients.readAll("reading before the kill", reading, consumer);
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            account.ends().forEach((partition, end) -> ends.put(at(killTopic, partition), new OffsetAndMetadata(end)));
            consumer.commitSync(ends);
            List<Clients.Sending> during = Clients.enqueue(to, killTopic, Message.batch("during", 150));
            Day.kill();
            Clients.acknowledged(during, account);
            Clients.send(to, killTopic, account, Message.batch("after", 150));
            Clients.readAll("reading on after the kill", reading, consumer);
            Map<TopicPartition, Long> kept = new HashMap<>();
            consumer.committed(ends.keySet()).forEach((where, found) -> kept.put(where, found.offset()));
            Map<TopicPartition, Long> committed = new HashMap<>();
            ends.forEach((where, asked) -> committed.put(where, asked.offset()));
            equal("commits made before", kept, committed);
            consumer.commitSync();
        }
        readBack(PREFIX + "-again");
        return account.size() + " records through the kill, each read once";
    }

    String offsets() throws Exception {
        Clients.create(timesTopic, 1);
        long began = 1_700_000_000_000L;
        try (Producer<byte[], byte[]> to = producer()) {
            List<Clients.Sending> sendings = new ArrayList<>();
            for (int n = 0; n < 10; n++) {
                byte[] value = {(byte) n};
                sendings.add(new Clients.Sending(null,
                    to.send(new ProducerRecord<>(timesTopic, 0, began + n * 1000, null, value))));
            }
            for (Clients.Sending sending : sendings) {
                get(sending.answer());
            }
        }
        equal("earliest", listed(OffsetSpec.earliest()), 0L);
        equal("latest", listed(OffsetSpec.latest()), 10L);
        equal("max timestamp", listed(OffsetSpec.maxTimestamp()), 9L);
        equal("at a timestamp", listed(OffsetSpec.forTimestamp(began + 5000)), 5L);
        equal("between two timestamps", listed(OffsetSpec.forTimestamp(began + 5001)), 6L);
        equal("beyond the last timestamp", listed(OffsetSpec.forTimestamp(began + 9001)), -1L);
        TopicPartition there = at(timesTopic, 0);
        try (Consumer<byte[], byte[]> consumer = Clients.consumer(PREFIX + "-times")) {
            equal("beginningOffsets", consumer.beginningOffsets(List.of(there)), Map.of(there, 0L));
            equal("endOffsets", consumer.endOffsets(List.of(there)), Map.of(there, 10L));
            equal("offsetsForTimes", consumer.offsetsForTimes(Map.of(there, began + 3500)).get(there).offset(), 4L);
            consumer.assign(List.of(there));
            consumer.seek(there, 7);
            List<Long> read = new ArrayList<>();
            Day.until("reading from where seek went", () -> {
                Clients.poll(consumer).forEach(record -> read.add(record.offset()));
                return read.size() >= 3;
            });
            equal("read after seek", read, List.of(7L, 8L, 9L));
        }
        return "earliest, latest, max timestamp, by time, seek";
    }

    private long listed(OffsetSpec spec) throws Exception {
        try (Admin admin = admin()) {
            TopicPartition there = at(timesTopic, 0);
            return get(admin.listOffsets(Map.of(there, spec)).partitionResult(there)).offset();
        }
    }
}
