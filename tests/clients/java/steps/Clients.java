package steps;

import static steps.Day.WAIT_SECONDS_MAX;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers, consumers and the admin client as their users configure them, and what the steps do with them. */
final class Clients {
    static final int PARTITIONS = 3;
    static final Set<Integer> ALL = Set.of(0, 1, 2);

    private Clients() {}

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", Day.BOOTSTRAP, "client.id", Day.PREFIX));
    }

    /** A producer with the client's defaults, which are acks=all and an idempotent producer; settings are pairs. */
    static Producer<byte[], byte[]> producer(String... settings) {
        Map<String, Object> all = configuration(settings);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Consumer<byte[], byte[]> consumer(String group, String... settings) {
        Map<String, Object> all = new HashMap<>(Map.of(
            "group.id", group, "auto.offset.reset", "earliest", "session.timeout.ms", "10000"));
        all.putAll(configuration(settings));
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** A member by the protocol of KIP-848: the coordinator says how long its sessions are. */
    static Consumer<byte[], byte[]> newProtocol(String group) {
        Map<String, Object> all = configuration(
            "group.id", group, "group.protocol", "consumer", "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Consumer<byte[], byte[]> member(String group, String topic, String... settings) {
        Consumer<byte[], byte[]> consumer = consumer(group, settings);
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static Map<String, Object> configuration(String... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", Day.BOOTSTRAP, "client.id", Day.PREFIX));
        for (int n = 0; n < settings.length; n += 2) {
            all.put(settings[n], settings[n + 1]);
        }
        return all;
    }

    /** What a call of the admin client gives, within the deadline. */
    static <T> T get(Future<T> future) throws InterruptedException, ExecutionException, TimeoutException {
        return future.get(WAIT_SECONDS_MAX, TimeUnit.SECONDS);
    }

    static void create(String topic, int partitions) throws Exception {
        try (Admin admin = admin()) {
            get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all());
        }
    }

    /** A message on its way, and where it goes. */
    record Sending(Message message, Future<RecordMetadata> answer) {}

    /** Hands a batch to the producer, to all partitions in turn. */
    static List<Sending> enqueue(Producer<byte[], byte[]> to, String topic, List<Message> batch) {
        List<Sending> sendings = new ArrayList<>();
        for (int n = 0; n < batch.size(); n++) {
            sendings.add(new Sending(batch.get(n), to.send(batch.get(n).to(topic, n % PARTITIONS))));
        }
        return sendings;
    }

    /** Waits until each message is acknowledged. */
    static void acknowledged(List<Sending> sendings, Account account) throws Exception {
        for (Sending sending : sendings) {
            RecordMetadata placed = get(sending.answer());
            account.acknowledge(placed.partition(), placed.offset(), sending.message());
        }
    }

    static void send(Producer<byte[], byte[]> to, String topic, Account account, List<Message> batch) throws Exception {
        acknowledged(enqueue(to, topic, batch), account);
    }

    /** One poll; says whether anything came. */
    static boolean poll(Consumer<byte[], byte[]> consumer, Account.Reading reading) {
        boolean any = false;
        for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
            any = true;
            Day.check(partitions(consumer).contains(record.partition()), "read a partition that is another member's");
            reading.add(consumer, record.partition(), record.offset(), Message.of(record));
        }
        return any;
    }

    static List<ConsumerRecord<byte[], byte[]>> poll(Consumer<byte[], byte[]> consumer) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(200)).forEach(records::add);
        return records;
    }

    /** Polls the members in turn until everything acknowledged was read and nothing more comes. */
    @SafeVarargs
    static void readAll(String what, Account.Reading reading, Consumer<byte[], byte[]>... members) {
        Day.until(what, () -> {
            boolean any = false;
            for (Consumer<byte[], byte[]> member : members) {
                any |= poll(member, reading);
            }
            return !any && reading.complete();
        });
    }

    static Set<Integer> partitions(Consumer<byte[], byte[]> consumer) {
        Set<Integer> partitions = new TreeSet<>();
        for (TopicPartition assigned : consumer.assignment()) {
            partitions.add(assigned.partition());
        }
        return partitions;
    }

    /** Polls until the member has all partitions; it must read nothing meanwhile. */
    static void untilItHasAll(Consumer<byte[], byte[]> member) {
        Day.until("the member has all partitions", () -> {
            Day.check(poll(member).isEmpty(), "read again what was read before");
            return partitions(member).equals(ALL);
        });
    }

    /** Polls both until each has partitions and together they have all. */
    static void untilShared(Consumer<byte[], byte[]> one, Consumer<byte[], byte[]> two) {
        Day.until("both members have partitions", () -> {
            poll(one);
            poll(two);
            Set<Integer> both = new TreeSet<>(partitions(one));
            both.addAll(partitions(two));
            return !partitions(one).isEmpty() && !partitions(two).isEmpty() && both.equals(ALL)
                && partitions(one).size() + partitions(two).size() == PARTITIONS;
        });
    }

    static TopicPartition at(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }
}
