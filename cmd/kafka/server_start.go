package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"barnabas/broker"
	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/tools"
	"barnabas/zkcoord/zkserver"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// newLogger returns a logger that writes to standard output, one line per event, like Apache Kafka's console appender.
func newLogger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(os.Stdout)
	log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, DisableColors: true, TimestampFormat: "2006-01-02 15:04:05,000"})
	return log
}

// manual is the help page of a server's command.
type manual struct {
	name, about, synopsis string
	more                  string // sections after the options
}

func (m manual) write(w io.Writer, flags *pflag.FlagSet) {
	fmt.Fprintf(w, "NAME\n    %s - %s\n\nSYNOPSIS\n    %s\n\nOPTIONS\n    -daemon\n        run in the background, with the output in a file\n",
		m.name, m.about, m.synopsis)
	flags.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		if f.Value.Type() == "bool" {
			value = ""
		}
		fmt.Fprintln(w, strings.TrimRight("    --"+f.Name+" "+value, " ")+"\n        "+usage)
	})
	fmt.Fprint(w, m.more)
}

// logDirVariable is part of each server's help page.
const logDirVariable = `
ENVIRONMENT
    LOG_DIR
        the directory for the output of -daemon; default: logs beside bin
`

var serverManual = manual{"kafka-server-start", "run a broker", "kafka-server-start [-daemon] FILE [--override PROPERTY=VALUE]...", `
FILES
    FILE is a server.properties of Apache Kafka 3.9 in ZooKeeper mode. site-docs/compat.md, or docs/compat.md in a checkout, lists the
    keys without effect, and the additional keys.
` + logDirVariable + `
EXIT STATUS
    0 after SIGTERM, SIGINT or SIGHUP, on which leaderships are handed over first; 1 if it could not start or go on, with one line that says why.
`}

var zookeeperManual = manual{"zookeeper-server-start", "run a ZooKeeper for development, one node", "zookeeper-server-start [-daemon] FILE", `
FILES
    FILE is a zookeeper.properties; dataDir, clientPort, clientPortAddress, tickTime, minSessionTimeout and maxSessionTimeout are honoured.
` + logDirVariable}

// untilStopped returns a context that ends with a signal to stop. A terminal that is closed stops a server too, as it does
// a Java machine, unless nohup has made it ignore that. A server survives those who read its log: writes to it fail then.
func untilStopped() (ctx context.Context, stop context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}

// fileArgument parses the command line of a command that takes one file. It handles errors and --help: ok is false
// then.
func fileArgument(m manual, args []string, define func(*pflag.FlagSet)) (file string, code int, ok bool) {
	flags := pflag.NewFlagSet(m.name, pflag.ContinueOnError)
	flags.Usage = func() { m.write(os.Stderr, flags) }
	flags.Bool("help", false, "print this text")
	version := flags.Bool("version", false, "print the version")
	define(flags)
	err := flags.Parse(args)
	help, _ := flags.GetBool("help")
	switch {
	case errors.Is(err, pflag.ErrHelp): // -h or -help: the page has been printed
		return "", 1, false
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v (--help lists the options)\n", m.name, err)
		return "", 1, false
	case *version:
		fmt.Println(tools.Version)
		return "", 0, false
	case help || flags.NArg() != 1:
		flags.Usage()
		return "", 1, false // as in Apache Kafka's launchers
	}
	return flags.Arg(0), 0, true
}

func serverStart(args []string) int {
	var overrides []string
	var fromEnvironment bool
	file, code, ok := fileArgument(serverManual, args,
		func(f *pflag.FlagSet) {
			f.StringArrayVar(&overrides, "override", nil, "a setting that overrides the file's, `PROPERTY=VALUE`; may be repeated")
			f.BoolVar(&fromEnvironment, "env", false, "also take settings from variables KAFKA_*, such as KAFKA_BROKER_ID for broker.id; --override takes precedence")
		})
	if !ok {
		return code
	}
	var environment []string
	if fromEnvironment {
		environment = environmentSettings(os.Environ())
	}
	if err := runBroker(file, properties(os.Environ()), environment, overrides); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runBroker runs a broker with the settings of a file, over which those of the environment and then the overrides lie,
// and below it those that system properties of Java stand for.
func runBroker(file string, system map[string]string, environment, overrides []string) error {
	ctx, stop := untilStopped()
	defer stop()
	cfg, err := config.Load(file, system, slices.Concat(environment, overrides))
	if err != nil {
		return err
	}
	log := newLogger()
	if keys := slices.Concat(keysOf(environment), slices.Sorted(maps.Keys(system))); len(keys) > 0 {
		log.WithField(logx.Settings, keys).Info("settings from the environment")
	}
	tellSettings(cfg, log)
	s := broker.New(cfg, log)
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.New("stopped before startup was complete")
		}
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-s.Failed():
	}
	s.Close()
	return err
}

// tellSettings logs what is set: first what differs from its default, then what has no effect.
func tellSettings(cfg *config.Broker, log *logrus.Logger) {
	log.WithField(logx.Settings, cfg.NotDefault()).Info("settings that differ from their defaults")
	if keys := cfg.NotHonoured(); len(keys) > 0 {
		log.WithField(logx.Settings, keys).Warn("settings without effect")
	}
	if cfg.FormatIgnored() {
		log.WithFields(logrus.Fields{logx.Setting: "log.message.format.version", logx.Protocol: cfg.InterBrokerProtocolVersion.String()}).
			Warn("setting ignored: from protocol 3.0 on brokers write the newest message format")
	}
	if keys := cfg.Unknown(); len(keys) > 0 {
		log.WithField(logx.Settings, keys).Warn("unknown settings")
	}
}

func zookeeperServerStart(args []string) int {
	file, code, ok := fileArgument(zookeeperManual, args, func(*pflag.FlagSet) {})
	if !ok {
		return code
	}
	ctx, stop := untilStopped()
	defer stop()
	props, err := config.ReadProperties(file)
	if err == nil {
		err = zkserver.RunProperties(ctx, props, logrus.NewEntry(newLogger()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
