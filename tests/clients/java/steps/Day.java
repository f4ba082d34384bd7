package steps;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/** What a day is told, what it says on standard output, and how it checks and waits. */
final class Day {
    static final String BOOTSTRAP = told("BOOTSTRAP");
    static final String PREFIX = told("PREFIX");
    static final int NODES = Integer.parseInt(told("NODES"));
    /** Whether the gateway keeps its records in Iggy. */
    static final boolean ON_IGGY = told("STORE").equals("iggy");
    /** Proves liveness, never speed: everything waited for takes a second or two. */
    static final long WAIT_SECONDS_MAX = 60;

    private static final BufferedReader STDIN = new BufferedReader(new InputStreamReader(System.in));
    private boolean failed;

    /** Work of a step; what it returns is the detail of its line. */
    interface Step {
        String run() throws Exception;
    }

    interface Work {
        void run() throws Exception;
    }

    /** Does one step and says how it went; a failed one does not keep the later ones from being tried. */
    void step(String name, Step work) {
        try {
            say(name, "ok", work.run());
        } catch (Exception | AssertionError error) {
            failed = true;
            error.printStackTrace();
            say(name, "fail", error.toString());
        }
    }

    boolean failed() {
        return failed;
    }

    private static void say(String name, String outcome, String detail) {
        System.out.println(String.join(" ", "step", name, outcome, detail).replaceAll("\\s+", " ").strip());
        System.out.flush();
    }

    /** Has the gateway killed with SIGKILL and started again; returns when it serves. */
    static void kill() throws IOException {
        System.out.println("kill");
        System.out.flush();
        equal("the answer to kill", STDIN.readLine(), "restarted");
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void equal(String what, Object found, Object expected) {
        check(Objects.equals(found, expected), what + ": " + found + ", expected " + expected);
    }

    /** Takes turns of something that polls the client until it says true; fails after the deadline. */
    static void until(String what, BooleanSupplier turn) {
        long deadline = System.nanoTime() + WAIT_SECONDS_MAX * 1_000_000_000L;
        while (!turn.getAsBoolean()) {
            check(System.nanoTime() < deadline, what + ": not after " + WAIT_SECONDS_MAX + " s");
        }
    }

    private static String told(String name) {
        return Objects.requireNonNull(System.getenv(name), name + " is not set");
    }

    /** The many small calls of one step: one that fails does not keep the others from being tried. */
    static final class Chores {
        private final List<String> done = new ArrayList<>();
        private final List<String> failed = new ArrayList<>();

        void chore(String name, Work work) {
            try {
                work.run();
                done.add(name);
            } catch (Exception | AssertionError error) {
                error.printStackTrace();
                failed.add(name + " (" + error + ")");
            }
        }

        String detail() {
            check(failed.isEmpty(), String.join("; ", failed));
            return String.join(", ", done);
        }
    }
}
