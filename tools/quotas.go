package tools

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"barnabas/broker/quota"
	"barnabas/internal/scram"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaTool describes and alters the quotas of users, clients and ips, and users' SCRAM credentials.
type quotaTool struct{ *configsTool }

// quotaTypes are the types' names in requests.
var quotaTypes = map[string]string{"users": "user", "clients": "client-id", "ips": "ip"}

// quotaOrder is the order in which the parts of an entity are printed.
var quotaOrder = []string{"user", "client-id", "ip"}

// alter changes credentials and quotas, but not both in one call, as in the original.
func (q *quotaTool) alter(ctx context.Context) error {
	add, err := q.o.additions()
	if err != nil {
		return err
	}
	if err := q.checkNames(add, q.o.deletions()); err != nil {
		return err
	}
	quotas, users, err := q.changes(add, q.o.deletions())
	if err != nil {
		return err
	}
	credentials := len(users.Upsertions)+len(users.Deletions) > 0
	switch {
	case credentials && len(quotas) > 0:
		return usagef("quotas and SCRAM credentials of a user cannot be altered in one call")
	case credentials:
		err = q.alterSCRAM(ctx, users)
	default:
		err = q.alterQuotas(ctx, quotas)
	}
	if err != nil {
		return err
	}
	q.printUpdated(q.o.entities[0])
	return nil
}

// changes returns the changes of quotas, and of the credentials of the user if one is meant.
func (q *quotaTool) changes(add []setting, remove []string) (quotas []kmsg.AlterClientQuotasRequestEntryOp, users *kmsg.AlterUserSCRAMCredentialsRequest, err error) {
	users = kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	user := q.scramUser()
	for _, s := range add {
		if m, ok := scram.Named(s.name); ok && user != "" {
			u, err := upsertion(user, m, s.value)
			if err != nil {
				return nil, nil, err
			}
			users.Upsertions = append(users.Upsertions, u)
			continue
		}
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key = s.name
		if op.Value, err = strconv.ParseFloat(s.value, 64); err != nil {
			return nil, nil, usagef("cannot parse quota configuration value for %s: %s", s.name, s.value)
		}
		quotas = append(quotas, op)
	}
	for _, name := range remove {
		if m, ok := scram.Named(name); ok && user != "" {
			d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
			d.Name, d.Mechanism = user, m.Number
			users.Deletions = append(users.Deletions, d)
			continue
		}
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Remove = name, true
		quotas = append(quotas, op)
	}
	return quotas, users, nil
}

// checkNames refuses settings that the entity cannot have before a broker is asked, whose response would name only one
// of them.
func (q *quotaTool) checkNames(add []setting, remove []string) error {
	kind, what := q.o.entities[0].kind, "quota"
	switch {
	case kind == "ips":
		what = "connection quota"
	case len(q.o.entities) > 1:
		kind = "clients"
	case kind == "users":
		what = "quota and SCRAM credential"
	}
	credentials := false
	unknown := func(name string) bool {
		if _, ok := scram.Named(name); ok && kind == "users" {
			credentials = true
			return false
		}
		return !slices.Contains(quota.Keys(kind == "ips"), name)
	}
	var adds []string
	for _, s := range add {
		adds = append(adds, s.name)
	}
	for _, change := range []struct {
		done  string
		names []string
	}{{"added", adds}, {"deleted", remove}} {
		if bad := slices.DeleteFunc(slices.Clone(change.names), func(n string) bool { return !unknown(n) }); len(bad) > 0 {
			return usagef("only %s configs can be %s for '%s' using --bootstrap-server; unexpected config names: %s", what, change.done, kind, strings.Join(bad, ", "))
		}
	}
	if e := q.o.entities[0]; credentials && *e.name == "" {
		return usagef("--entity-default and --user-defaults do not go together with the SCRAM credentials of a user")
	}
	return nil
}

// scramUser returns the user whose credentials may be meant, "" for none.
func (q *quotaTool) scramUser() string {
	if e := q.o.entities[0]; len(q.o.entities) == 1 && e.kind == "users" && e.name != nil {
		return *e.name
	}
	return ""
}

// upsertion returns the request to store a password.
func upsertion(user string, m scram.Mechanism, text string) (u kmsg.AlterUserSCRAMCredentialsRequestUpsertion, err error) {
	p, err := salt(m, text)
	u = kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = user, m.Number, int32(p.iterations), p.salt, p.salted
	return u, err
}

// saltedPassword is a password with its salt.
type saltedPassword struct {
	salt, salted []byte
	iterations   int
}

// salt salts a password, given as iterations=N,password=P.
func salt(m scram.Mechanism, text string) (p saltedPassword, err error) {
	props, err := keyValues(strings.Split(text, ","))
	if err != nil {
		return p, err
	}
	password := props["password"]
	if password == "" {
		return p, usagef("the password of %s is missing or empty", m.Name)
	}
	p.iterations = scram.MinIterations
	if v, ok := props["iterations"]; ok {
		if p.iterations, err = strconv.Atoi(v); err != nil || p.iterations < scram.MinIterations || p.iterations > scram.MaxIterations {
			return p, usagef("the iterations of %s must be a number from %d to %d, not %s", m.Name, scram.MinIterations, scram.MaxIterations, v)
		}
	}
	p.salt = make([]byte, 16)
	rand.Read(p.salt)
	p.salted, err = m.Salt(password, p.salt, p.iterations)
	return p, err
}

func (q *quotaTool) alterSCRAM(ctx context.Context, req *kmsg.AlterUserSCRAMCredentialsRequest) error {
	resp, err := req.RequestWith(ctx, q.cl)
	if err != nil {
		return fmt.Errorf("alter SCRAM credentials: %w", err)
	}
	for _, r := range resp.Results {
		if err := answered(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func (q *quotaTool) alterQuotas(ctx context.Context, ops []kmsg.AlterClientQuotasRequestEntryOp) error {
	if err := q.refuseMissingQuotas(ctx, ops); err != nil {
		return err
	}
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Ops = ops
	for _, e := range q.o.entities {
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		part.Type = quotaTypes[e.kind]
		if *e.name != "" {
			part.Name = e.name
		}
		entry.Entity = append(entry.Entity, part)
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, entry)
	resp, err := req.RequestWith(ctx, q.cl)
	if err != nil {
		return fmt.Errorf("alter client quotas: %w", err)
	}
	for _, e := range resp.Entries {
		if err := answered(e.ErrorCode, e.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func (q *quotaTool) describe(ctx context.Context) error {
	if err := q.describeQuotas(ctx); err != nil {
		return err
	}
	if e := q.o.entities[0]; len(q.o.entities) == 1 && e.kind == "users" && (e.name == nil || *e.name != "") {
		return q.describeSCRAM(ctx, e.name)
	}
	return nil
}

func (q *quotaTool) describeQuotas(ctx context.Context) error {
	entries, err := q.fetchQuotas(ctx)
	if err != nil {
		return err
	}
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = quotaLine(e)
	}
	slices.Sort(lines)
	for _, line := range lines {
		q.env.println(line)
	}
	return nil
}

// fetchQuotas requests the quotas of the entities that the options select.
func (q *quotaTool) fetchQuotas(ctx context.Context) ([]kmsg.DescribeClientQuotasResponseEntry, error) {
	const exact, byDefault, any = 0, 1, 2
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = true
	for _, e := range q.o.entities {
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType = quotaTypes[e.kind]
		switch {
		case e.name == nil:
			c.MatchType = any
		case *e.name == "":
			c.MatchType = byDefault
		default:
			c.MatchType, c.Match = exact, e.name
		}
		req.Components = append(req.Components, c)
	}
	resp, err := req.RequestWith(ctx, q.cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, fmt.Errorf("describe client quotas: %w", err)
	}
	return resp.Entries, nil
}

// refuseMissingQuotas refuses to delete quotas that the entity does not have, which is probably a mistake.
func (q *quotaTool) refuseMissingQuotas(ctx context.Context, ops []kmsg.AlterClientQuotasRequestEntryOp) error {
	var deletions []string
	for _, op := range ops {
		if op.Remove {
			deletions = append(deletions, op.Key)
		}
	}
	if len(deletions) == 0 {
		return nil
	}
	entries, err := q.fetchQuotas(ctx)
	if err != nil {
		return err
	}
	present := make(map[string]bool)
	for _, e := range entries {
		for _, v := range e.Values {
			present[v.Key] = true
		}
	}
	return refuseAbsent(deletions, present)
}

func quotaLine(e kmsg.DescribeClientQuotasResponseEntry) string {
	words := map[string]string{"user": "user-principal", "client-id": "client-id", "ip": "ip"}
	slices.SortFunc(e.Entity, func(a, b kmsg.DescribeClientQuotasResponseEntryEntity) int {
		return cmp.Compare(slices.Index(quotaOrder, a.Type), slices.Index(quotaOrder, b.Type))
	})
	parts := make([]string, len(e.Entity))
	for i, p := range e.Entity {
		if p.Name == nil {
			parts[i] = "the default " + words[p.Type]
		} else {
			parts[i] = fmt.Sprintf("%s '%s'", words[p.Type], *p.Name)
		}
	}
	values := make([]string, len(e.Values))
	for i, v := range e.Values {
		values[i] = v.Key + "=" + string(appendFloat(nil, v.Value, 64))
	}
	slices.Sort(values)
	return fmt.Sprintf("Quota configs for %s are %s", strings.Join(parts, ", "), strings.Join(values, ", "))
}

func (q *quotaTool) describeSCRAM(ctx context.Context, user *string) error {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	if user != nil {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = *user
		req.Users = append(req.Users, u)
	}
	resp, err := req.RequestWith(ctx, q.cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return fmt.Errorf("describe SCRAM credentials: %w", err)
	}
	for _, r := range resp.Results {
		err := answered(r.ErrorCode, r.ErrorMessage)
		if errors.Is(err, kerr.ResourceNotFound) {
			continue // a user without credentials
		}
		if err != nil {
			return err
		}
		infos := make([]string, len(r.CredentialInfos))
		for i, c := range r.CredentialInfos {
			infos[i] = fmt.Sprintf("%s=iterations=%d", mechanismName(c.Mechanism), c.Iterations)
		}
		q.env.printf("SCRAM credential configs for user-principal '%s' are %s\n", r.User, strings.Join(infos, ", "))
	}
	return nil
}

func mechanismName(number int8) string {
	if m, ok := scram.Numbered(number); ok {
		return m.Name
	}
	return "UNKNOWN"
}
