package broker

import (
	"context"
	"net"
	"time"

	"barnabas/broker/api"
	"barnabas/broker/quota"
	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

func newQuotas(c *config.Broker) *quota.Manager {
	return quota.NewManager(quota.Config{
		Clients:    quota.Windows{Count: c.QuotaWindowNum, Size: c.QuotaWindowSize},
		Controller: quota.Windows{Count: c.ControllerQuotaWindowNum, Size: c.ControllerQuotaWindowSize},
		Now:        time.Now,
	})
}

// loadQuotas reads the quotas of all users, client ids and addresses, and the users' credentials, which are stored with
// them. Entities that no longer exist are removed.
func (s *Server) loadQuotas(ctx context.Context) error {
	all, err := api.StoredQuotas(ctx, s.zk)
	if err != nil {
		return err
	}
	for _, e := range append(s.quotas.Entities(), s.credentials.users()...) {
		if _, there := all[e]; !there {
			all[e] = nil
		}
	}
	for e, stored := range all {
		s.setQuotas(e, stored)
		s.setCredentials(e, stored)
	}
	return nil
}

// quotaChanged reads the quotas of one entity again.
func (s *Server) quotaChanged(e zkcoord.Entity) error {
	stored, err := s.zk.EntityConfig(s.ctx, e)
	if err == nil {
		entity := api.QuotaEntity(e)
		s.setQuotas(entity, stored)
		s.setCredentials(entity, stored)
	}
	return err
}

func (s *Server) setQuotas(e quota.Entity, stored map[string]string) {
	limits, err := quota.ParseLimits(stored)
	if err != nil {
		s.log.WithError(err).WithField(logx.Entity, e).Error("a quota cannot be used")
	}
	s.quotas.Set(e, limits)
}

func (s *Server) holdBack(ip net.IP) time.Duration { return s.quotas.Connected(ip.String()) }
