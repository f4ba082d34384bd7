// kfake serves franz-go's fake Kafka cluster, one broker that keeps everything in memory, until SIGTERM. Once it
// listens it prints its address, a line of its own.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	partitions := flag.Int("partitions", 1, "partitions of a topic that nobody said more of")
	flag.Parse()
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(*partitions),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start:", err)
		os.Exit(1)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println(cluster.ListenAddrs()[0])
	<-stop
	cluster.Close()
}
