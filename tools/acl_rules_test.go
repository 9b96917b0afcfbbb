package tools

import (
	"io"
	"strings"
	"testing"
)

// TestRulesOfOptions: resources and entries are those that Apache Kafka 3.9.2's tool adds.
func TestRulesOfOptions(t *testing.T) {
	for _, test := range []struct {
		options string
		want    []string // one line per resource: type, name, pattern, entries
	}{
		{"--allow-principal User:alice --deny-principal User:bob --deny-host 10.0.0.1 --operation Read --operation Write --topic t", []string{
			"TOPIC t LITERAL: User:alice * READ ALLOW, User:alice * WRITE ALLOW, User:bob 10.0.0.1 READ DENY, User:bob 10.0.0.1 WRITE DENY"}},
		{"--allow-principal User:alice --producer --topic p --transactional-id x --idempotent", []string{
			"TOPIC p LITERAL: User:alice * WRITE ALLOW, User:alice * CREATE ALLOW, User:alice * DESCRIBE ALLOW",
			"TRANSACTIONAL_ID x LITERAL: User:alice * WRITE ALLOW, User:alice * DESCRIBE ALLOW",
			"CLUSTER kafka-cluster LITERAL: User:alice * IDEMPOTENT_WRITE ALLOW"}},
		{"--allow-principal User:alice --producer --consumer --topic pc --group g", []string{
			"TOPIC pc LITERAL: User:alice * READ ALLOW, User:alice * WRITE ALLOW, User:alice * CREATE ALLOW, User:alice * DESCRIBE ALLOW",
			"GROUP g LITERAL: User:alice * READ ALLOW"}},
		{"--allow-principal User:carol --operation All --topic pre --resource-pattern-type prefixed", []string{
			"TOPIC pre PREFIXED: User:carol * ALL ALLOW"}},
		{"--allow-principal User:carol --operation ClusterAction --cluster", []string{
			"CLUSTER kafka-cluster LITERAL: User:carol * CLUSTER_ACTION ALLOW"}},
	} {
		o := newACLsOptions()
		args := append([]string{"--bootstrap-server", "h:1", "--add"}, strings.Fields(test.options)...)
		if err := o.parse(&Env{Args: args, Stderr: io.Discard}); err != nil {
			t.Fatal(err)
		}
		if err := o.check(); err != nil {
			t.Fatal(err)
		}
		rules, err := o.rules()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rules {
			var entries []string
			for _, e := range r.entries {
				entries = append(entries, strings.Join([]string{e.principal, e.host, e.operation.String(), e.permission.String()}, " "))
			}
			got = append(got, strings.Join([]string{r.resource.kind.String(), *r.resource.name, r.resource.pattern.String()}, " ")+": "+strings.Join(entries, ", "))
		}
		diff(t, test.options, strings.Join(test.want, "\n"), strings.Join(got, "\n"))
	}
}
