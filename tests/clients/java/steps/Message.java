package steps;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * What a producer gives and a consumer must give back. Bytes are held as Latin-1 strings, which compare by value; null
 * stays null.
 */
record Message(String key, String value, List<Pair> headers) {
    record Pair(String name, String value) {}

    static Message of(ConsumerRecord<byte[], byte[]> read) {
        List<Pair> headers = new ArrayList<>();
        for (Header header : read.headers()) {
            headers.add(new Pair(header.key(), text(header.value())));
        }
        return new Message(text(read.key()), text(read.value()), headers);
    }

    ProducerRecord<byte[], byte[]> to(String topic, int partition) {
        List<Header> sent = new ArrayList<>();
        for (Pair header : headers) {
            sent.add(new RecordHeader(header.name(), bytes(header.value())));
        }
        return new ProducerRecord<>(topic, partition, bytes(key), bytes(value), sent);
    }

    /** Messages with all that is odd about keys, values and headers, which differ from each other where they can. */
    static List<Message> batch(String label, int count) {
        List<Message> made = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            String key = label + "-key-" + n;
            StringBuilder filled = new StringBuilder(label + "-" + n + "-");
            for (char byteValue = 0; byteValue < n % 256; byteValue++) {
                filled.append(byteValue);
            }
            String value = filled.toString();
            List<Pair> headers = List.of(new Pair("n", "" + n), new Pair("label", label));
            switch (n % 10) {
                case 1 -> key = null;
                case 2 -> value = "";
                case 3 -> value = null;
                case 4 -> headers = List.of(
                    new Pair("again", "1"), new Pair("other", "\0\u00ff"), new Pair("again", "2"), new Pair("again", "1"));
                case 5 -> key = "";
                case 6 -> headers = List.of();
                case 7 -> headers = List.of(new Pair("empty", ""), new Pair("ключ", "\u00e9"));
                case 8 -> headers = List.of(new Pair("null", null));
                default -> { }
            }
            made.add(new Message(key, value, headers));
        }
        return made;
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }
}
