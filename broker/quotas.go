package broker

import (
	"context"
	"net"
	"slices"
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
	for _, e := range s.credentials.users() {
		if _, there := all[e]; !there {
			all[e] = nil
		}
	}
	limits := make(map[quota.Entity]quota.Limits, len(all))
	for e, stored := range all {
		s.setCredentials(e, stored)
		set := s.limitsOf(e, stored)
		at, err := resolved(ctx, e)
		if err != nil {
			s.log.WithError(err).WithField(logx.Entity, e).Error("a quota cannot be used yet")
			s.quotaUnresolved(e)
			continue
		}
		if _, taken := limits[at]; !taken || at == e { // the limit of an address counts rather than that of a name for it
			limits[at] = set
		}
	}
	s.quotas.SetAll(limits)
	return nil
}

// quotaChanged reads the quotas of one entity again.
func (s *Server) quotaChanged(e zkcoord.Entity) error {
	stored, err := s.zk.EntityConfig(s.ctx, e)
	if err != nil {
		return err
	}
	entity := api.QuotaEntity(e)
	s.setCredentials(entity, stored)
	at, err := resolved(s.ctx, entity)
	if err == nil {
		s.quotas.Set(at, s.limitsOf(entity, stored))
	}
	return err
}

// quotaUnresolved has the quotas of an address read again whose name could not be resolved.
func (s *Server) quotaUnresolved(e quota.Entity) {
	s.background(func() {
		s.pending.Lock()
		defer s.pending.Unlock()
		node := zkcoord.Entity{Kind: zkcoord.IPs, Name: e.IP.Value}
		s.applyAgainLocked(node.Path(), func() error { return s.readEntity(node) })
	})
}

func (s *Server) limitsOf(e quota.Entity, stored map[string]string) quota.Limits {
	limits, err := quota.ParseLimits(stored)
	if err != nil {
		s.log.WithError(err).WithField(logx.Entity, e).Error("a quota cannot be used")
	}
	return limits
}

// resolved returns the entity whose use is limited by the quotas that are stored for an entity: an address may be written
// in another way than that of the system, or as the name of a host (IpConfigHandler, 3.9).
func resolved(ctx context.Context, e quota.Entity) (quota.Entity, error) {
	if !e.IP.Given || e.IP.Default {
		return e, nil
	}
	ip, err := resolvedAddress(ctx, e.IP.Value)
	if err != nil {
		return e, err
	}
	return quota.Entity{IP: quota.Named(ip)}, nil
}

// resolvedAddress returns the address that a setting means, in the system's form; Java prefers IPv4 among those of a host.
func resolvedAddress(ctx context.Context, host string) (string, error) {
	if ip := net.ParseIP(host); ip != nil {
		return ip.String(), nil
	}
	all, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	return all[max(slices.IndexFunc(all, func(ip net.IP) bool { return ip.To4() != nil }), 0)].String(), nil
}
