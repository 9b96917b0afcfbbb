package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"
	"barnabas/internal/scram"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func scramMechanism(number int8) (scram.Mechanism, error) {
	m, ok := scram.Numbered(number)
	if !ok {
		return m, fmt.Errorf("SCRAM mechanism %d: %w", number, kerr.UnsupportedSaslMechanism)
	}
	return m, nil
}

// scramChange is what a request changes for one user: credentials by mechanism, empty if deleted.
type scramChange struct {
	mechanisms map[string]string
	err        error
	applied    bool // at least once
}

// alterUserSCRAMCredentials writes and deletes users' credentials, as the controller (KIP-554). Either all of a user's
// changes are made, or none.
func (h *Handlers) alterUserSCRAMCredentials(ctx context.Context, c *Call, req *kmsg.AlterUserSCRAMCredentialsRequest) kmsg.Response {
	changes := scramChanges(req)
	var denied error
	if h.Controller.Active() {
		denied = codeOnly(h.authorize.cluster(c, acl.Alter))
	}
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	for _, user := range slices.Sorted(maps.Keys(changes)) {
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User, out.ErrorMessage = user, noMessage()
		err := h.alterSCRAM(ctx, user, changes[user], denied)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		}
		resp.Results = append(resp.Results, out)
	}
	return resp
}

// scramChanges groups a request's changes by user.
func scramChanges(req *kmsg.AlterUserSCRAMCredentialsRequest) map[string]*scramChange {
	changes := make(map[string]*scramChange)
	of := func(user string) *scramChange {
		if changes[user] == nil {
			changes[user] = &scramChange{mechanisms: make(map[string]string)}
		}
		return changes[user]
	}
	for _, d := range req.Deletions {
		of(d.Name).add(d.Name, d.Mechanism, func(scram.Mechanism) (string, error) { return "", nil })
	}
	for _, u := range req.Upsertions {
		of(u.Name).add(u.Name, u.Mechanism, func(m scram.Mechanism) (string, error) {
			if u.Iterations < scram.MinIterations || u.Iterations > scram.MaxIterations {
				return "", fmt.Errorf("%d iterations, %d to %d are allowed: %w", u.Iterations, scram.MinIterations, scram.MaxIterations, kerr.UnacceptableCredential)
			}
			return m.Credential(u.Salt, u.SaltedPassword, int(u.Iterations)), nil
		})
	}
	return changes
}

// add adds a change. Of several faults, the last is told, and that a mechanism appears twice only if there is no other
// (ZkAdminManager.alterUserScramCredentials, 3.9).
func (c *scramChange) add(user string, mechanism int8, credential func(scram.Mechanism) (string, error)) {
	if user == "" {
		c.err = fmt.Errorf("the user's name is empty: %w", kerr.UnacceptableCredential)
		return
	}
	m, err := scramMechanism(mechanism)
	if err != nil {
		c.err = err
		return
	}
	text, err := credential(m)
	if err != nil {
		c.err = err
		return
	}
	if _, twice := c.mechanisms[m.Name]; twice && c.err == nil {
		c.err = fmt.Errorf("%s of user %q appears twice in one request: %w", m.Name, user, kerr.DuplicateResource)
	}
	c.mechanisms[m.Name] = text
}

func (h *Handlers) alterSCRAM(ctx context.Context, user string, change *scramChange, denied error) error {
	if !h.Controller.Active() {
		return kerr.NotController
	}
	if denied != nil {
		return denied
	}
	if change.err != nil {
		return change.err
	}
	node := zkcoord.Entity{Kind: zkcoord.Users, Name: zkcoord.SanitizeName(user)}
	return h.ZK.UpdateEntityConfig(ctx, node, func(config map[string]string) (map[string]string, error) { return change.apply(user, config) })
}

// apply changes a user's stored settings. If it is called again, because others have written too, credentials may be gone
// that were to be deleted: perhaps by the first attempt, whose response was lost.
func (c *scramChange) apply(user string, config map[string]string) (map[string]string, error) {
	for mechanism, credential := range c.mechanisms {
		if credential != "" {
			config[mechanism] = credential
			continue
		}
		if config[mechanism] == "" && !c.applied {
			return nil, fmt.Errorf("user %q has no %s credential: %w", user, mechanism, kerr.ResourceNotFound)
		}
		delete(config, mechanism)
	}
	c.applied = true
	return config, nil
}

// describeUserSCRAMCredentials lists the users' mechanisms and iteration counts, but no secrets (KIP-554).
func (h *Handlers) describeUserSCRAMCredentials(ctx context.Context, c *Call, req *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorMessage = noMessage()
	if err := h.authorize.cluster(c, acl.Describe); err != nil {
		return deniedCredentials(req, err)
	}
	all, err := h.ZK.AllEntityConfigs(ctx, zkcoord.Users)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.codeOf(err), message(err)
		return resp
	}
	byUser := make(map[string]map[string]string, len(all))
	for name, config := range all {
		byUser[zkcoord.DesanitizeName(name)] = config
	}
	asked := make(map[string]int)
	var users []string
	for _, u := range req.Users {
		if asked[u.Name]++; asked[u.Name] == 1 {
			users = append(users, u.Name)
		}
	}
	everyone := len(users) == 0
	if everyone {
		users = slices.Sorted(maps.Keys(byUser))
	}
	resp.Results = []kmsg.DescribeUserSCRAMCredentialsResponseResult{}
	for _, user := range users {
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.ErrorMessage = noMessage()
		out.User, out.CredentialInfos = user, []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
		err := describeSCRAM(&out, byUser[user], asked[user] > 1)
		if errors.Is(err, kerr.ResourceNotFound) && everyone {
			continue // a user with nothing but quotas
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		}
		resp.Results = append(resp.Results, out)
	}
	return resp
}

// deniedCredentials has an entry with the code for each requested user, without a name, as in Apache Kafka.
func deniedCredentials(req *kmsg.DescribeUserSCRAMCredentialsRequest, denied error) kmsg.Response {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorCode = errcode.Of(denied)
	for range req.Users {
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.ErrorCode = resp.ErrorCode
		resp.Results = append(resp.Results, out)
	}
	return resp
}

func describeSCRAM(out *kmsg.DescribeUserSCRAMCredentialsResponseResult, config map[string]string, twice bool) error {
	switch {
	case out.User == "":
		return fmt.Errorf("the user's name is empty: %w", kerr.ResourceNotFound)
	case twice:
		return fmt.Errorf("user %q appears twice in one request: %w", out.User, kerr.DuplicateResource)
	}
	for _, m := range scram.Mechanisms() {
		stored, ok := config[m.Name]
		if !ok {
			continue
		}
		iterations, err := scram.Iterations(stored)
		if err != nil {
			return fmt.Errorf("user %q, %s: %w", out.User, m.Name, err)
		}
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = m.Number, iterations
		out.CredentialInfos = append(out.CredentialInfos, info)
	}
	if len(out.CredentialInfos) == 0 {
		return fmt.Errorf("user %q has no SCRAM credential: %w", out.User, kerr.ResourceNotFound)
	}
	return nil
}
