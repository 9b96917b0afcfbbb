package tools

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// delegationTokensOptions is the command line of kafka-delegation-tokens.
type delegationTokensOptions struct {
	*adminOptions
	owners, renewers          *[]string
	maxLife, renewFor, expire *int64
	hmac                      *string
}

func newDelegationTokensOptions() *delegationTokensOptions {
	o := &delegationTokensOptions{adminOptions: newAdminOptions("kafka-delegation-tokens", "create, renew, expire and describe delegation tokens.", "command-config")}
	o.Bool("create", false, "create a token; needs --max-life-time-period")
	o.Bool("renew", false, "renew a token; needs --hmac and --renew-time-period")
	o.Bool("expire", false, "expire a token; needs --hmac and --expiry-time-period")
	o.Bool("describe", false, "print tokens, those of --owner-principal if given")
	o.owners = o.StringArray("owner-principal", nil, "whose tokens, as User:name: a `principal`")
	o.renewers = o.StringArray("renewer-principal", nil, "with --create: who may renew it, as User:name: a `principal`")
	o.maxLife = o.Int64("max-life-time-period", -1, "with --create: its maximum lifetime in `ms`; -1 is the broker's setting")
	o.renewFor = o.Int64("renew-time-period", -1, "with --renew: its remaining lifetime in `ms`; -1 is the broker's setting")
	o.expire = o.Int64("expiry-time-period", -1, "with --expire: its remaining lifetime in `ms`; -1 ends it at once")
	o.hmac = o.String("hmac", "", "the token's `HMAC`")
	return o
}

// delegationTokenActions are the actions with their required and excluded options.
var delegationTokenActions = []struct {
	name             string
	require, exclude []string
	run              func(t *delegationTokensTool, ctx context.Context) error
}{
	{"create", []string{"max-life-time-period"}, []string{"hmac", "renew-time-period", "expiry-time-period"}, (*delegationTokensTool).create},
	{"renew", []string{"hmac", "renew-time-period"}, []string{"renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"}, (*delegationTokensTool).renew},
	{"expire", []string{"hmac", "expiry-time-period"}, []string{"max-life-time-period", "renew-time-period", "owner-principal"}, (*delegationTokensTool).end},
	{"describe", nil, []string{"renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"}, (*delegationTokensTool).describe},
}

func delegationTokens(ctx context.Context, env *Env) error {
	o := newDelegationTokensOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	action, err := o.exactlyOne("create", "renew", "expire", "describe")
	if err != nil {
		return err
	}
	if err := o.require("bootstrap-server", "command-config"); err != nil {
		return err
	}
	t := &delegationTokensTool{o: o, env: env}
	if t.owners, err = tokenPrincipals(*o.owners); err != nil {
		return err
	}
	if t.renewers, err = tokenPrincipals(*o.renewers); err != nil {
		return err
	}
	if t.hmac, err = base64.StdEncoding.DecodeString(*o.hmac); err != nil {
		return usagef("--hmac %s is not in base64", *o.hmac)
	}
	for _, a := range delegationTokenActions {
		if a.name != action {
			continue
		}
		if err := o.require(a.require...); err != nil {
			return err
		}
		if err := o.exclude(a.name, a.exclude...); err != nil {
			return err
		}
		return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
			t.cl = cl
			return a.run(t, ctx)
		})
	}
	return nil
}

// tokenPrincipal is a principal named in a token.
type tokenPrincipal struct{ kind, name string }

func (p tokenPrincipal) String() string { return p.kind + ":" + p.name }

func tokenPrincipals(list []string) ([]tokenPrincipal, error) {
	texts, err := parsePrincipals(list)
	principals := make([]tokenPrincipal, len(texts))
	for i, text := range texts {
		principals[i].kind, principals[i].name, _ = strings.Cut(text, ":")
	}
	return principals, err
}

// joinPrincipals formats principals as the original does.
func joinPrincipals(list []tokenPrincipal) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// delegationTokensTool runs kafka-delegation-tokens.
type delegationTokensTool struct {
	o                *delegationTokensOptions
	env              *Env
	cl               *kgo.Client
	owners, renewers []tokenPrincipal
	hmac             []byte
}

// delegationToken is a token to be printed.
type delegationToken struct {
	id                     string
	hmac                   []byte
	owner, requester       tokenPrincipal
	renewers               []tokenPrincipal
	issued, expires, until int64 // ms
}

func (t *delegationTokensTool) create(ctx context.Context) error {
	t.env.printf("Calling create token operation with renewers :[%s] , max-life-time-period :%d\n", joinPrincipals(t.renewers), *t.o.maxLife)
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.MaxLifetimeMillis = *t.o.maxLife
	if len(t.owners) > 0 {
		req.OwnerPrincipalType, req.OwnerPrincipalName = &t.owners[0].kind, &t.owners[0].name
	}
	for _, p := range t.renewers {
		r := kmsg.NewCreateDelegationTokenRequestRenewer()
		r.PrincipalType, r.PrincipalName = p.kind, p.name
		req.Renewers = append(req.Renewers, r)
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	t.env.printf("Created delegation token with tokenId : %s\n", resp.TokenID)
	t.print([]delegationToken{{resp.TokenID, resp.HMAC, tokenPrincipal{resp.PrincipalType, resp.PrincipalName},
		tokenPrincipal{resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName}, t.renewers,
		resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp}})
	return nil
}

func (t *delegationTokensTool) renew(ctx context.Context) error {
	t.env.printf("Calling renew token operation with hmac :%s , renew-time-period :%d\n", *t.o.hmac, *t.o.renewFor)
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.HMAC, req.RenewTimeMillis = t.hmac, *t.o.renewFor
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err == nil {
		t.env.printf("Completed renew operation. New expiry date : %s", minute(resp.ExpiryTimestamp))
	}
	return err
}

// end expires a token.
func (t *delegationTokensTool) end(ctx context.Context) error {
	t.env.printf("Calling expire token operation with hmac :%s , expire-time-period :%d\n", *t.o.hmac, *t.o.expire)
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC, req.ExpiryPeriodMillis = t.hmac, *t.o.expire
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err == nil {
		t.env.printf("Completed expire operation. New expiry date : %s", minute(resp.ExpiryTimestamp))
	}
	return err
}

func (t *delegationTokensTool) describe(ctx context.Context) error {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	if len(t.owners) == 0 {
		t.env.println("Calling describe token operation for current user.")
	} else {
		t.env.printf("Calling describe token operation for owners: [%s]\n", joinPrincipals(t.owners))
	}
	for _, p := range t.owners {
		owner := kmsg.NewDescribeDelegationTokenRequestOwner()
		owner.PrincipalType, owner.PrincipalName = p.kind, p.name
		req.Owners = append(req.Owners, owner)
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	t.env.printf("Total number of tokens : %d", len(resp.TokenDetails))
	tokens := make([]delegationToken, len(resp.TokenDetails))
	for i, d := range resp.TokenDetails {
		tokens[i] = delegationToken{id: d.TokenID, hmac: d.HMAC, owner: tokenPrincipal{d.PrincipalType, d.PrincipalName},
			requester: tokenPrincipal{d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName},
			issued:    d.IssueTimestamp, expires: d.ExpiryTimestamp, until: d.MaxTimestamp}
		for _, r := range d.Renewers {
			tokens[i].renewers = append(tokens[i].renewers, tokenPrincipal{r.PrincipalType, r.PrincipalName})
		}
	}
	t.print(tokens)
	return nil
}

func (t *delegationTokensTool) print(tokens []delegationToken) {
	const row = "\n%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s\n"
	t.env.printf(row, "TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
	for _, d := range tokens {
		t.env.printf(row, d.id, base64.StdEncoding.EncodeToString(d.hmac), d.owner, d.requester, fmt.Sprintf("[%s]", joinPrincipals(d.renewers)),
			minute(d.issued), minute(d.expires), minute(d.until))
	}
}

// minute formats a time in ms as the original does, in the time zone of the process.
func minute(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02T15:04") }
