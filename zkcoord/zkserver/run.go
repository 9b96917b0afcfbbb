package zkserver

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

// RunProperties runs a server according to a zookeeper.properties file until the context is done. It knows dataDir,
// clientPort, clientPortAddress, tickTime, minSessionTimeout, maxSessionTimeout and jute.maxbuffer; it refuses to be a
// member of an ensemble (server.N), and ignores ZooKeeper's other properties with a log line.
func RunProperties(ctx context.Context, props map[string]string, log *logrus.Entry) error {
	cfg, address, err := fromProperties(props, log)
	if err != nil {
		return err
	}
	s, err := Open(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Listen(address); err != nil {
		return err
	}
	log.WithField(logx.Listener, s.Addr().String()).WithField(logx.Dir, cfg.Dir).Info("zookeeper server started")
	select {
	case <-ctx.Done():
		log.Info("zookeeper server stopped")
	case <-s.Done():
	}
	return s.Close()
}

func fromProperties(props map[string]string, log *logrus.Entry) (cfg Config, address string, err error) {
	cfg.Logger = log
	port, host := "2181", ""
	for _, key := range slices.Sorted(maps.Keys(props)) {
		value := strings.TrimSpace(props[key])
		switch key {
		case "dataDir":
			cfg.Dir = value
		case "clientPort":
			port = value
		case "clientPortAddress":
			host = value
		case "tickTime":
			cfg.TickTime, err = milliseconds(key, value)
		case "minSessionTimeout":
			cfg.MinTimeout, err = milliseconds(key, value)
		case "maxSessionTimeout":
			cfg.MaxTimeout, err = milliseconds(key, value)
		case "jute.maxbuffer":
			cfg.MaxFrameBytes, err = positive(key, value)
		default:
			if strings.HasPrefix(key, "server.") {
				return cfg, "", fmt.Errorf("zkserver: %s=%s: this server has no peers; use ZooKeeper for an ensemble", key, value)
			}
			log.WithField(logx.Setting, key).Info("ZooKeeper setting without effect")
		}
		if err != nil {
			return cfg, "", err
		}
	}
	if cfg.Dir == "" {
		return cfg, "", fmt.Errorf("zkserver: dataDir must be set")
	}
	if _, err := positive("clientPort", port); err != nil && port != "0" {
		return cfg, "", err
	}
	return cfg, net.JoinHostPort(host, port), nil
}

// milliseconds parses a duration; -1 stands for the default, as in ZooKeeper.
func milliseconds(key, value string) (time.Duration, error) {
	if value == "-1" {
		return 0, nil
	}
	n, err := positive(key, value)
	return time.Duration(n) * time.Millisecond, err
}

func positive(key, value string) (int, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("zkserver: %s=%s: must be a positive number", key, value)
	}
	return int(n), nil
}
