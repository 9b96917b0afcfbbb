package api

import (
	"context"
	"fmt"
	"net"

	"barnabas/broker/quota"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The types of entities that have quotas.
const (
	userType     = "user"
	clientIDType = "client-id"
	ipType       = "ip"
)

// entityPart returns the part of an entity for a type, or nil if there is no such type.
func entityPart(e *quota.Entity, kind string) *quota.Name {
	switch kind {
	case userType:
		return &e.User
	case clientIDType:
		return &e.Client
	case ipType:
		return &e.IP
	}
	return nil
}

// namedEntity returns the entity that a request names.
func namedEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (quota.Entity, error) {
	var e quota.Entity
	for _, p := range parts {
		part := entityPart(&e, p.Type)
		switch {
		case part == nil:
			return e, fmt.Errorf("quota entity type %q: %w", p.Type, kerr.InvalidRequest)
		case p.Name == nil:
			*part = quota.DefaultName
		case *p.Name == "":
			return e, fmt.Errorf("quota entity of type %s with an empty name: %w", p.Type, kerr.InvalidRequest)
		default:
			*part = quota.Named(*p.Name)
		}
	}
	return e, nil
}

// quotaNode returns the configuration node for an entity's quotas. The name of a host must resolve.
func quotaNode(ctx context.Context, e quota.Entity) (zkcoord.Entity, error) {
	switch {
	case e.IP.Given && (e.User.Given || e.Client.Given):
		return zkcoord.Entity{}, fmt.Errorf("an ip together with a user or client-id: %w", kerr.InvalidRequest)
	case e.IP.Given:
		if e.IP.Default {
			return zkcoord.Entity{Kind: zkcoord.IPs, Name: zkcoord.DefaultEntity}, nil
		}
		if _, err := net.DefaultResolver.LookupIPAddr(ctx, e.IP.Value); ctx.Err() != nil {
			return zkcoord.Entity{}, context.Cause(ctx)
		} else if err != nil {
			return zkcoord.Entity{}, fmt.Errorf("ip %q is not an address and does not resolve: %w", e.IP.Value, kerr.InvalidRequest)
		}
		return zkcoord.Entity{Kind: zkcoord.IPs, Name: e.IP.Value}, nil
	case e.User.Given && e.Client.Given:
		return zkcoord.UserClient(sanitized(e.User), sanitized(e.Client)), nil
	case e.User.Given:
		return zkcoord.Entity{Kind: zkcoord.Users, Name: sanitized(e.User)}, nil
	case e.Client.Given:
		return zkcoord.Entity{Kind: zkcoord.Clients, Name: sanitized(e.Client)}, nil
	}
	return zkcoord.Entity{}, fmt.Errorf("an entity is missing: %w", kerr.InvalidRequest)
}

// QuotaEntity returns the entity that a configuration node of users, client ids or addresses belongs to.
func QuotaEntity(node zkcoord.Entity) quota.Entity {
	switch user, client, both := node.UserAndClient(); {
	case both:
		return quota.Entity{User: desanitized(user), Client: desanitized(client)}
	case node.Kind == zkcoord.Users:
		return quota.Entity{User: desanitized(node.Name)}
	case node.Kind == zkcoord.Clients:
		return quota.Entity{Client: desanitized(node.Name)}
	}
	return quota.Entity{IP: desanitized(node.Name)}
}

// StoredQuotas reads the settings of all users, client ids and addresses: their quotas, and what else is stored with
// them. With an error it returns those that were read.
func StoredQuotas(ctx context.Context, zk *zkcoord.Client) (map[quota.Entity]map[string]string, error) {
	all := make(map[quota.Entity]map[string]string)
	for _, kind := range []zkcoord.EntityKind{zkcoord.Users, zkcoord.Clients, zkcoord.IPs} {
		stored, err := zk.AllEntityConfigs(ctx, kind)
		if err != nil {
			return all, err
		}
		for name, settings := range stored {
			all[QuotaEntity(zkcoord.Entity{Kind: kind, Name: name})] = settings
		}
	}
	return all, nil
}

func sanitized(n quota.Name) string {
	if n.Default {
		return zkcoord.DefaultEntity
	}
	return zkcoord.SanitizeName(n.Value)
}

func desanitized(name string) quota.Name {
	if name == zkcoord.DefaultEntity {
		return quota.DefaultName
	}
	return quota.Named(zkcoord.DesanitizeName(name))
}
