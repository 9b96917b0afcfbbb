package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// healthcheck exits with 0 if the broker at HOST:PORT answers an ApiVersions request, otherwise with 1. Unlike
// kafka-broker-api-versions it asks only that broker, so that one that is down does not make the others look unhealthy.
// The listener must be PLAINTEXT, or SASL_PLAINTEXT, where ApiVersions precedes the authentication.
func healthcheck(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: kafka healthcheck HOST:PORT")
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := askVersions(ctx, args[0]); err != nil {
		fmt.Fprintf(os.Stderr, "kafka healthcheck: %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// askVersions sends an ApiVersions request to a broker.
func askVersions(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("healthcheck"))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = cl.SeedBrokers()[0].Request(ctx, kmsg.NewPtrApiVersionsRequest())
	return err
}
