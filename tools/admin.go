package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// defaultAPITimeout bounds how long an administrative tool waits for the brokers (default.api.timeout.ms).
	defaultAPITimeout = time.Minute
	// defaultRequestTimeout is the time that a broker has for a response (request.timeout.ms).
	defaultRequestTimeout = 30 * time.Second
)

// adminOptions is the command line of a tool that sends requests to the brokers and exits.
type adminOptions struct {
	*options
	bootstrap, config *string
	requestTimeout    time.Duration // for the response to each request; 0: as the client's settings say
}

// newAdminOptions defines the two options that each such tool has. config is the name of the one for a properties file.
func newAdminOptions(name, about, config string) *adminOptions {
	o := &adminOptions{options: newOptions(name, about)}
	o.bootstrap, o.config = o.client(config)
	return o
}

// insteadOfBrokers declares that an option replaces --bootstrap-server.
func (o *adminOptions) insteadOfBrokers(option string) {
	o.Lookup("bootstrap-server").Usage = "brokers to connect to, `host:port,...` (required without --" + option + ")"
}

// open parses the command line, which must have the brokers and the required options.
func (o *adminOptions) open(env *Env, required ...string) error {
	if err := o.parse(env); err != nil {
		return err
	}
	return o.require(append([]string{"bootstrap-server"}, required...)...)
}

// connect calls work with a client of the brokers, created with further options if given. Its context ends with the
// tool's or after default.api.timeout.ms, unless each request has a time of its own.
func (o *adminOptions) connect(ctx context.Context, env *Env, work func(ctx context.Context, cl *kgo.Client) error, more ...kgo.Opt) error {
	p, err := readProperties(*o.config)
	if err != nil {
		return err
	}
	p["bootstrap.servers"] = *o.bootstrap
	if _, ok := p["request.timeout.ms"]; !ok {
		p["request.timeout.ms"] = strconv.FormatInt(defaultRequestTimeout.Milliseconds(), 10)
	}
	opts, err := clientOptions(ctx, env, p, nil)
	if err != nil {
		return err
	}
	limit, err := p.millis("default.api.timeout.ms", defaultAPITimeout)
	if err != nil {
		return err
	}
	if o.requestTimeout > 0 {
		limit = o.requestTimeout
		opts = append(opts, requestTimeout(limit))
	}
	cl, err := kgo.NewClient(append(append(opts, kgo.RetryTimeout(limit)), more...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	connecting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if o.requestTimeout == 0 {
		ctx = connecting
	}
	if err := awaitBroker(connecting, env, cl, p["bootstrap.servers"]); err != nil {
		return err
	}
	return work(ctx, cl)
}

// awaitBroker returns when a broker answers. One that cannot be reached may be starting: scripts start a broker and run
// a tool at once. A user at a terminal is told what the tool waits for.
func awaitBroker(ctx context.Context, env *Env, cl *kgo.Client, addresses string) error {
	const between = 100 * time.Millisecond
	for told := false; ; told = true {
		err := cl.Ping(ctx)
		if why := refusal(ctx); why != nil {
			return why
		}
		var dial *net.OpError
		var dns *net.DNSError
		if err == nil || !errors.As(err, &dial) || errors.As(err, &dns) && dns.IsNotFound {
			return err
		}
		if !told {
			env.errorf("waiting%s for a broker to answer at %s", upTo(ctx), addresses)
		}
		if await.Pause(ctx, between) != nil {
			return fmt.Errorf("no broker answers at %s: %w: %w", addresses, context.Cause(ctx), err)
		}
	}
}

// upTo returns the remaining time of a context in words, if it has a deadline.
func upTo(ctx context.Context) string {
	end, ok := ctx.Deadline()
	if !ok {
		return ""
	}
	return fmt.Sprintf(" up to %v", time.Until(end).Round(time.Second))
}
