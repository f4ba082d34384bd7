// Package day is what the days in Go share: talking with `run`, the steps of the matrix over a client's own calls,
// records that are told apart, and the account of them.
package day

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Partitions of every topic that holds records.
const Partitions = 3

// wait proves liveness, never speed: everything waited for takes a second or two.
const wait = 60 * time.Second

// turn is how long to let others run before a condition is looked at again.
const turn = 20 * time.Millisecond

// What `run` tells a day.
var (
	// Bootstrap is host:port of the gateway.
	Bootstrap = os.Getenv("BOOTSTRAP")
	// Prefix begins every name of a topic, group or client.
	Prefix   = os.Getenv("PREFIX")
	nodes, _ = strconv.Atoi(os.Getenv("NODES"))
)

// ErrMissing says that a client has no call for what it was asked.
var ErrMissing = errors.New("the client has no such call")

// failure is what check panics with; a step ends at it.
type failure struct{ reason string }

type skipped struct{ reason string }

// day is the lines of a day on standard output.
type day struct {
	failed  bool
	answers *bufio.Reader
}

// step does one step and says how it went; a failed one does not keep the later ones from being tried.
func (d *day) step(name string, work func() string) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case skipped:
			d.say(name, "skip", reason.reason)
		case failure:
			d.failed = true
			fmt.Fprintf(os.Stderr, "step %s: %s\n%s", name, reason.reason, debug.Stack())
			d.say(name, "fail", reason.reason)
		default:
			panic(reason)
		}
	}()
	detail := work()
	d.say(name, "ok", detail)
}

func (d *day) say(name, outcome, detail string) {
	fmt.Println(strings.Join(strings.Fields(fmt.Sprintf("step %s %s %s", name, outcome, detail)), " "))
}

// kill has the gateway killed with SIGKILL and started again; it returns when the gateway serves.
func (d *day) kill() {
	fmt.Println("kill")
	answer, err := d.answers.ReadString('\n')
	check(err == nil && strings.TrimSpace(answer) == "restarted", "run answered %q, %v", answer, err)
}

func skip(format string, values ...any) { panic(skipped{fmt.Sprintf(format, values...)}) }

// check ends the step when something does not hold.
func check(holds bool, format string, values ...any) {
	if !holds {
		panic(failure{fmt.Sprintf(format, values...)})
	}
}

// succeeds ends the step when a call failed.
func succeeds(what string, err error) {
	check(err == nil, "%s: %v", what, err)
}

func equal(what string, found, expected any) {
	check(reflect.DeepEqual(found, expected), "%s: %v, expected %v", what, found, expected)
}

// eventually looks at a condition until it holds; the step fails after the deadline.
func eventually(what string, holds func() bool) {
	for deadline := time.Now().Add(wait); !holds(); time.Sleep(turn) {
		check(time.Now().Before(deadline), "%s: not after %v", what, wait)
	}
}
