package broker

import (
	"context"
	"net"
	"strconv"
	"time"

	"barnabas/broker/api"
	"barnabas/broker/quota"
	"barnabas/config"
	"barnabas/zkcoord"
)

func newQuotas(c *config.Broker) *quota.Manager {
	return quota.NewManager(quota.Config{
		Clients:    quota.Windows{Count: c.QuotaWindowNum, Size: c.QuotaWindowSize},
		Controller: quota.Windows{Count: c.ControllerQuotaWindowNum, Size: c.ControllerQuotaWindowSize},
		Now:        time.Now,
	})
}

// loadQuotas reads the limits of all users, client ids and addresses.
func (s *Server) loadQuotas(ctx context.Context) error {
	for _, kind := range []zkcoord.EntityKind{zkcoord.Users, zkcoord.Clients, zkcoord.IPs} {
		all, err := s.zk.AllEntityConfigs(ctx, kind)
		if err != nil {
			return err
		}
		for name, stored := range all {
			s.setQuotas(zkcoord.Entity{Kind: kind, Name: name}, stored)
		}
	}
	return nil
}

// quotaChanged reads the limits of one entity anew.
func (s *Server) quotaChanged(e zkcoord.Entity) error {
	stored, err := s.zk.EntityConfig(s.ctx, e)
	if err == nil {
		s.setQuotas(e, stored)
	}
	return err
}

// setQuotas takes over what is stored for an entity. A user's node has more than limits; what is no number is told of.
func (s *Server) setQuotas(e zkcoord.Entity, stored map[string]string) {
	of, ip := api.QuotaEntityOf(e)
	limits, connections := make(map[quota.Kind]float64), -1.0
	for key, text := range stored {
		kind, known := quota.KindOf(key)
		if !known && key != quota.ConnectionRateKey {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || value < 0:
			s.log.WithError(err).WithField("entity", e).Errorf("the quota %s=%q cannot be used", key, text)
		case known:
			limits[kind] = value
		default:
			connections = value
		}
	}
	if ip.Given {
		s.quotas.SetIP(ip, connections)
	} else {
		s.quotas.Set(of, limits)
	}
}

func (s *Server) holdBack(ip net.IP) time.Duration { return s.quotas.Connected(ip.String()) }
