package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/config"

	"github.com/twmb/franz-go/pkg/kgo"
)

// properties are the settings of a client under their names in Apache Kafka's Java clients.
type properties map[string]string

// readProperties reads a properties file, in which variables are replaced; without a name there are none.
func readProperties(file string) (properties, error) {
	if file == "" {
		return properties{}, nil
	}
	m, err := config.ReadProperties(file)
	if err == nil {
		m, err = config.ResolveVariables(m)
	}
	return properties(m), err
}

// with returns p overridden by the given settings.
func (p properties) with(over map[string]string) properties {
	all := maps.Clone(p)
	maps.Copy(all, over)
	return all
}

// millis returns the value of a setting in ms.
func (p properties) millis(name string, missing time.Duration) (time.Duration, error) {
	v, ok := p[name]
	if !ok {
		return missing, nil
	}
	ms, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, invalidValue(v, name, "it must be a number of milliseconds")
	}
	return duration(ms, time.Millisecond), nil
}

// duration returns n units of time, or the longest time there is: Java's programs take 2^63-1 ms for forever.
func duration(n int64, unit time.Duration) time.Duration {
	most := math.MaxInt64 / int64(unit)
	return time.Duration(max(-most, min(n, most))) * unit
}

func invalidValue(value, name, why string) error {
	return fmt.Errorf("invalid value %s for configuration %s: %s", value, name, why)
}

// setter converts a setting's value to options of the client.
type setter func(value string) ([]kgo.Opt, error)

// clientOptions converts p with the setters for the kind of client and those for all clients. A setting that has no
// effect is named in a warning. When it turns out that no broker can be used with these settings, the tool's context,
// of which ctx is or is derived from, ends with the reason.
func clientOptions(ctx context.Context, env *Env, p properties, kind map[string]setter) ([]kgo.Opt, error) {
	seeds, err := bootstrapServers(p["bootstrap.servers"])
	if err != nil {
		return nil, err
	}
	log := &clientLog{out: env.Stderr}
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.WithLogger(log), kgo.WithHooks(newConnectionMonitor(ctx, env, seeds, p, log)), kgo.DisableClientMetrics()}
	security, err := securityOptions(ctx, env, p)
	if err != nil {
		return nil, err
	}
	opts = append(opts, security...)
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		set := kind[name]
		if set == nil {
			set = commonSettings[name]
		}
		switch {
		case set != nil:
			more, err := set(p[name])
			if err != nil {
				return nil, invalidValue(p[name], name, err.Error())
			}
			opts = append(opts, more...)
		case !handledElsewhere(name):
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		env.errorf("WARN settings without effect: %s", strings.Join(unknown, ", "))
	}
	return opts, nil
}

// handledElsewhere reports whether a setting is read without a setter, or irrelevant here.
func handledElsewhere(name string) bool {
	switch name {
	case "bootstrap.servers", "security.protocol", "default.api.timeout.ms", "max.request.size", "max.block.ms", "batch.size":
		return true
	}
	return strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "zookeeper.") || strings.HasPrefix(name, "sasl.") ||
		strings.HasSuffix(name, ".serializer") || strings.HasSuffix(name, ".deserializer")
}

func bootstrapServers(list string) ([]string, error) {
	var seeds []string
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		if _, addr, _ = cutScheme(addr); addr == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return nil, fmt.Errorf("invalid url in bootstrap.servers: %s", addr)
		}
		seeds = append(seeds, addr)
	}
	if len(seeds) == 0 {
		return nil, usagef("missing required argument %q", "bootstrap-server")
	}
	return seeds, nil
}

// cutScheme removes PROTOCOL:// from an address.
func cutScheme(addr string) (scheme, rest string, found bool) {
	if scheme, rest, found = strings.Cut(addr, "://"); found {
		return scheme, rest, true
	}
	return "", addr, false
}

func millisSetting(opt func(time.Duration) kgo.Opt) setter {
	return func(v string) ([]kgo.Opt, error) {
		ms, err := strconv.ParseInt(v, 10, 64)
		if err != nil || ms < 0 {
			return nil, errors.New("it must be a number of milliseconds")
		}
		return []kgo.Opt{opt(duration(ms, time.Millisecond))}, nil
	}
}

// millisWithin is millisSetting for an option of the library that accepts fewer values than Java's clients do: it gets the
// nearest one.
func millisWithin[O kgo.Opt](least, most time.Duration, opt func(time.Duration) O) setter {
	return millisSetting(func(d time.Duration) kgo.Opt { return opt(min(max(d, least), most)) })
}

// idleSetting is millisWithin for the time after which idle connections are closed; -1 is never.
func idleSetting(v string) ([]kgo.Opt, error) {
	const most = 15 * time.Minute // of the library
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n < 0 {
		return []kgo.Opt{kgo.ConnIdleTimeout(most)}, nil
	}
	return millisWithin(100*time.Millisecond, most, kgo.ConnIdleTimeout)(v)
}

func numberSetting[T int | int32](opt func(T) kgo.Opt) setter {
	return func(v string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return nil, errors.New("it must be a number")
		}
		return []kgo.Opt{opt(T(n))}, nil
	}
}

func textSetting(opt func(string) kgo.Opt) setter {
	return func(v string) ([]kgo.Opt, error) { return []kgo.Opt{opt(v)}, nil }
}

// noEffect is for settings, of buffers for example, that have no effect a user could notice.
func noEffect(string) ([]kgo.Opt, error) { return nil, nil }

// Limits of the library.
const (
	leastMetadataAge = 5 * time.Second
	// mostWait is the longest time that fits in a request.
	mostWait = math.MaxInt32 * time.Millisecond
	// The limits for the time that brokers have for a response.
	leastRequestTimeout = 100 * time.Millisecond
	mostRequestTimeout  = 15 * time.Minute
)

// requestTimeout sets the time that brokers have for a response, within the limits.
func requestTimeout(d time.Duration) kgo.Opt {
	return kgo.RequestTimeoutOverhead(min(max(d, leastRequestTimeout), mostRequestTimeout))
}

var commonSettings = map[string]setter{
	"client.id":                          textSetting(func(id string) kgo.Opt { return kgo.ClientID(id) }),
	"connections.max.idle.ms":            idleSetting,
	"metadata.max.age.ms":                millisWithin(leastMetadataAge, time.Hour, kgo.MetadataMaxAge),
	"retry.backoff.ms":                   millisSetting(func(d time.Duration) kgo.Opt { return kgo.RetryBackoffFn(func(int) time.Duration { return d }) }),
	"socket.connection.setup.timeout.ms": millisSetting(func(d time.Duration) kgo.Opt { return kgo.DialTimeout(d) }),
	"send.buffer.bytes":                  noEffect,
	"receive.buffer.bytes":               noEffect,
	"reconnect.backoff.ms":               noEffect,
	"reconnect.backoff.max.ms":           noEffect,
	"retry.backoff.max.ms":               noEffect,
	"request.timeout.ms":                 millisSetting(requestTimeout),
	"client.dns.lookup":                  noEffect,
}
