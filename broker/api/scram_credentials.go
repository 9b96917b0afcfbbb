package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxSCRAMIterations bounds what a login costs the broker.
const maxSCRAMIterations = 16384

// scramMechanism is a way to keep passwords (RFC 5802, 7677), under its number in the protocol.
type scramMechanism struct {
	number        int8
	name          string // also the key in the user's configuration
	hash          func() hash.Hash
	minIterations int32
}

var scramMechanisms = []scramMechanism{
	{1, "SCRAM-SHA-256", sha256.New, 4096},
	{2, "SCRAM-SHA-512", sha512.New, 4096},
}

func scramMechanismOf(number int8) (scramMechanism, error) {
	for _, m := range scramMechanisms {
		if m.number == number {
			return m, nil
		}
	}
	return scramMechanism{}, fmt.Errorf("SCRAM mechanism %d: %w", number, kerr.UnsupportedSaslMechanism)
}

// credential is what is stored of a salted password: enough to check a login, not to log in (RFC 5802, section 3).
// Layout: salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=N
func (m scramMechanism) credential(salt, saltedPassword []byte, iterations int32) string {
	sum := m.hash()
	sum.Write(m.mac(saltedPassword, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("salt=%s,stored_key=%s,server_key=%s,iterations=%d",
		encode(salt), encode(sum.Sum(nil)), encode(m.mac(saltedPassword, "Server Key")), iterations)
}

func (m scramMechanism) mac(key []byte, text string) []byte {
	mac := hmac.New(m.hash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// iterationsOf reads a stored credential's iterations.
func iterationsOf(credential string) (int32, error) {
	for _, field := range strings.Split(credential, ",") {
		if text, ok := strings.CutPrefix(field, "iterations="); ok {
			n, err := strconv.ParseInt(text, 10, 32)
			return int32(n), err
		}
	}
	return 0, errors.New("a stored SCRAM credential has no iterations")
}

// scramChange is what a request wants of one user: credentials by mechanism, empty for one to be deleted.
type scramChange struct {
	mechanisms map[string]string
	err        error
}

// alterUserSCRAMCredentials writes and deletes users' credentials, as the controller (KIP-554). All of a user's
// changes are made, or none.
func (h *Handlers) alterUserSCRAMCredentials(ctx context.Context, _ *Call, req *kmsg.AlterUserSCRAMCredentialsRequest) kmsg.Response {
	changes := scramChanges(req)
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	for _, user := range slices.Sorted(maps.Keys(changes)) {
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User, out.ErrorMessage = user, noMessage()
		err := h.alterSCRAM(ctx, user, changes[user])
		if err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		}
		resp.Results = append(resp.Results, out)
	}
	return resp
}

// scramChanges gathers a request's changes by user.
func scramChanges(req *kmsg.AlterUserSCRAMCredentialsRequest) map[string]*scramChange {
	changes := make(map[string]*scramChange)
	of := func(user string) *scramChange {
		if changes[user] == nil {
			changes[user] = &scramChange{mechanisms: make(map[string]string)}
		}
		return changes[user]
	}
	for _, d := range req.Deletions {
		of(d.Name).add(d.Name, d.Mechanism, func(scramMechanism) (string, error) { return "", nil })
	}
	for _, u := range req.Upsertions {
		of(u.Name).add(u.Name, u.Mechanism, func(m scramMechanism) (string, error) {
			if u.Iterations < m.minIterations || u.Iterations > maxSCRAMIterations {
				return "", fmt.Errorf("%d iterations, %d to %d are allowed: %w", u.Iterations, m.minIterations, maxSCRAMIterations, kerr.UnacceptableCredential)
			}
			return m.credential(u.Salt, u.SaltedPassword, u.Iterations), nil
		})
	}
	return changes
}

func (c *scramChange) add(user string, mechanism int8, credential func(scramMechanism) (string, error)) {
	if c.err != nil && !errors.Is(c.err, kerr.DuplicateResource) {
		return
	}
	if user == "" {
		c.err = fmt.Errorf("the user's name is empty: %w", kerr.UnacceptableCredential)
		return
	}
	m, err := scramMechanismOf(mechanism)
	if err != nil {
		c.err = err
		return
	}
	text, err := credential(m)
	if err != nil {
		c.err = err
		return
	}
	if _, twice := c.mechanisms[m.name]; twice {
		c.err = fmt.Errorf("%s of user %q twice in one request: %w", m.name, user, kerr.DuplicateResource)
	}
	c.mechanisms[m.name] = text
}

func (h *Handlers) alterSCRAM(ctx context.Context, user string, change *scramChange) error {
	if !h.Controller.Active() {
		return kerr.NotController
	}
	if change.err != nil {
		return change.err
	}
	node := zkcoord.Entity{Kind: zkcoord.Users, Name: zkcoord.SanitizeName(user)}
	config, err := h.ZK.EntityConfig(ctx, node)
	if err != nil {
		return err
	}
	for mechanism, credential := range change.mechanisms {
		if credential != "" {
			config[mechanism] = credential
			continue
		}
		if config[mechanism] == "" {
			return fmt.Errorf("user %q has no %s credential: %w", user, mechanism, kerr.ResourceNotFound)
		}
		delete(config, mechanism)
	}
	return h.ZK.SetEntityConfig(ctx, node, config)
}

// describeUserSCRAMCredentials tells which users can log in how, and nothing that could be used to (KIP-554).
func (h *Handlers) describeUserSCRAMCredentials(ctx context.Context, _ *Call, req *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorMessage = noMessage()
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
			continue // a user with quotas alone
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		}
		resp.Results = append(resp.Results, out)
	}
	return resp
}

func describeSCRAM(out *kmsg.DescribeUserSCRAMCredentialsResponseResult, config map[string]string, twice bool) error {
	switch {
	case out.User == "":
		return fmt.Errorf("the user's name is empty: %w", kerr.ResourceNotFound)
	case twice:
		return fmt.Errorf("user %q twice in one request: %w", out.User, kerr.DuplicateResource)
	}
	for _, m := range scramMechanisms {
		stored, ok := config[m.name]
		if !ok {
			continue
		}
		iterations, err := iterationsOf(stored)
		if err != nil {
			return fmt.Errorf("user %q, %s: %w", out.User, m.name, err)
		}
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = m.number, iterations
		out.CredentialInfos = append(out.CredentialInfos, info)
	}
	if len(out.CredentialInfos) == 0 {
		return fmt.Errorf("user %q has no SCRAM credential: %w", out.User, kerr.ResourceNotFound)
	}
	return nil
}
