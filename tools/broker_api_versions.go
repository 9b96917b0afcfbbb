package tools

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func brokerAPIVersions(ctx context.Context, env *Env) error {
	o := newAdminOptions("kafka-broker-api-versions", "print which APIs and versions the brokers support, and which of them this client uses.", "command-config")
	if err := o.open(env); err != nil {
		return err
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error { return printVersions(ctx, env, cl) })
}

func printVersions(ctx context.Context, env *Env, cl *kgo.Client) error {
	meta, err := fetchMetadata(ctx, cl)
	if err != nil {
		return err
	}
	for _, b := range meta.Brokers {
		rack := "null"
		if b.Rack != nil {
			rack = *b.Rack
		}
		env.printf("%s (id: %d rack: %s) -> ", net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), b.NodeID, rack)
		lines, err := versionLines(ctx, cl, int(b.NodeID))
		if err != nil {
			env.printf("ERROR: %s\n", describe(err))
			continue
		}
		env.printf("(\n\t%s\n)\n", strings.Join(lines, ",\n\t"))
	}
	return nil
}

// versionLines describes each API: those of the broker, then those that only this client knows.
func versionLines(ctx context.Context, cl *kgo.Client, broker int) ([]string, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "barnabas", Version
	resp, err := cl.Broker(broker).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := resp.(*kmsg.ApiVersionsResponse)
	if err := answered(answer.ErrorCode, nil); err != nil {
		return nil, err
	}
	byKey := make(map[int16]string, len(answer.ApiKeys)+len(clientOnlyAPIs))
	for _, key := range clientOnlyAPIs {
		byKey[key] = fmt.Sprintf("%s(%d): UNSUPPORTED", apiName(key), key)
	}
	for _, k := range answer.ApiKeys {
		byKey[k.ApiKey] = versionLine(k)
	}
	lines := make([]string, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		lines = append(lines, byKey[key])
	}
	return lines, nil
}

func versionLine(k kmsg.ApiVersionsResponseApiKey) string {
	versions := strconv.Itoa(int(k.MinVersion))
	if k.MaxVersion != k.MinVersion {
		versions = fmt.Sprintf("%d to %d", k.MinVersion, k.MaxVersion)
	}
	usable := "UNSUPPORTED"
	if req := kmsg.RequestForKey(k.ApiKey); req != nil && k.MinVersion <= req.MaxVersion() {
		usable = strconv.Itoa(int(min(k.MaxVersion, req.MaxVersion())))
	}
	return fmt.Sprintf("%s(%d): %s [usable: %s]", apiName(k.ApiKey), k.ApiKey, versions, usable)
}

// clientOnlyAPIs are the APIs that clients of Apache Kafka 3.9 list in addition to a broker's: they are for KRaft
// clusters.
var clientOnlyAPIs = []int16{55, 64, 71, 72, 74, 75, 76, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87}

// apiNames are the names of APIs for which the wire library has others.
var apiNames = map[int16]string{
	4: "LeaderAndIsr", 17: "SaslHandshake", 22: "InitProducerId", 29: "DescribeAcls", 30: "CreateAcls", 31: "DeleteAcls",
	36: "SaslAuthenticate", 45: "AlterPartitionReassignments", 50: "DescribeUserScramCredentials",
	51: "AlterUserScramCredentials", 67: "AllocateProducerIds", 74: "ListClientMetricsResources",
}

// apiName returns an API's name as Apache Kafka prints it.
func apiName(key int16) string {
	if name, ok := apiNames[key]; ok {
		return name
	}
	if name := kmsg.NameForKey(key); name != "" {
		return name
	}
	return "UNKNOWN"
}
