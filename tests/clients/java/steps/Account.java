package steps;

import static steps.Day.check;
import static steps.Day.equal;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What was acknowledged on a topic, by partition and offset. */
final class Account {
    record At(int partition, long offset) {}

    private final Map<At, Message> sent = new ConcurrentHashMap<>();

    void acknowledge(int partition, long offset, Message message) {
        check(offset >= 0, "acknowledged without an offset: " + message);
        check(sent.put(new At(partition, offset), message) == null,
            "offset " + offset + " of partition " + partition + " was given twice");
    }

    int size() {
        return sent.size();
    }

    /** The next offset of each partition. */
    Map<Integer, Long> ends() {
        Map<Integer, Long> ends = new HashMap<>();
        sent.keySet().forEach(at -> ends.merge(at.partition(), at.offset() + 1, Math::max));
        return ends;
    }

    Reading read() {
        return new Reading();
    }

    /** What consumers read of the topic. Everything must come once, in order, as it was sent. */
    final class Reading {
        private record Reader(Object consumer, int partition) {}

        private final Set<At> seen = new HashSet<>();
        private final Map<Reader, Long> last = new HashMap<>();

        void add(Object consumer, int partition, long offset, Message message) {
            At at = new At(partition, offset);
            check(sent.containsKey(at), at + " was read and never acknowledged: " + message);
            equal(at.toString(), message, sent.get(at));
            check(seen.add(at), at + " was read twice");
            Long before = last.put(new Reader(consumer, partition), offset);
            check(before == null || before < offset, at + " was read out of order");
        }

        boolean complete() {
            return seen.size() == sent.size();
        }
    }
}
