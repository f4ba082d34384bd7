package steps;

/** A day of Apache Kafka's Java clients. */
final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        Day day = new Day();
        Messages messages = new Messages();
        Groups groups = new Groups();
        day.step("connect", messages::connect);
        day.step("create-topic", messages::createTopic);
        day.step("produce", messages::produce);
        day.step("idempotent", messages::idempotent);
        day.step("consume", messages::consume);
        day.step("rebalance", groups::rebalance);
        day.step("static-member", groups::staticMember);
        day.step("incremental-assign", groups::incrementalAssign);
        day.step("consumer-protocol", groups::consumerProtocol);
        day.step("commit", () -> groups.commit(messages.topic));
        day.step("kill-9", messages::kill9);
        day.step("offsets", messages::offsets);
        day.step("admin", new Administration(messages, groups)::administer);
        // Threads of a client that hang at its end must not keep a day that is over.
        Runtime.getRuntime().halt(day.failed() ? 1 : 0);
    }
}
