package acl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	literal  = kmsg.ACLResourcePatternTypeLiteral
	prefixed = kmsg.ACLResourcePatternTypePrefixed
	all      = kmsg.ACLOperationAll
)

// rule parses an ACL such as "allow User:a 10.0.0.1 Read Topic t", or "... Topic t*" for a prefix.
func rule(t testing.TB, text string) Binding {
	t.Helper()
	f := strings.Fields(text)
	if len(f) != 6 {
		t.Fatalf("%q is not a valid rule", text)
	}
	permission, err := kmsg.ParseACLPermissionType(f[0])
	op, err2 := kmsg.ParseACLOperation(f[3])
	kind, err3 := kmsg.ParseACLResourceType(f[4])
	if err != nil || err2 != nil || err3 != nil {
		t.Fatalf("%q: %v %v %v", text, err, err2, err3)
	}
	r := Resource{Type: kind, Pattern: literal, Name: f[5]}
	if name, ok := strings.CutSuffix(f[5], "*"); ok && name != "" {
		r.Pattern, r.Name = prefixed, name
	}
	return Binding{r, Entry{Principal: f[1], Host: f[2], Operation: op, Permission: permission}}
}

func aclsOf(t testing.TB, texts ...string) map[Resource][]Entry {
	m := make(map[Resource][]Entry)
	for _, text := range texts {
		b := rule(t, text)
		m[b.Resource] = append(m[b.Resource], b.Entry)
	}
	return m
}

func TestDecide(t *testing.T) {
	alice := Subject{"User:alice", "10.0.0.1"}
	for name, test := range map[string]struct {
		acls string
		op   Operation
		kind ResourceType
		name string
		want outcome
	}{
		"no ACLs":                        {"", Read, Topic, "t", unmentioned},
		"ACLs of another resource":       {"allow User:alice * Read Topic u", Read, Topic, "t", unmentioned},
		"ACLs of another type":           {"allow User:alice * Read Group t", Read, Topic, "t", unmentioned},
		"another's ACL":                  {"allow User:bob * Read Topic t", Read, Topic, "t", refused},
		"literal":                        {"allow User:alice * Read Topic t", Read, Topic, "t", allowed},
		"another operation":              {"allow User:alice * Read Topic t", Write, Topic, "t", refused},
		"All":                            {"allow User:alice * All Topic t", Write, Topic, "t", allowed},
		"everybody":                      {"allow User:* * Read Topic t", Read, Topic, "t", allowed},
		"another type of principal":      {"allow Group:alice * Read Topic t", Read, Topic, "t", refused},
		"type of principal in lower":     {"allow user:alice * Read Topic t", Read, Topic, "t", refused},
		"host":                           {"allow User:alice 10.0.0.1 Read Topic t", Read, Topic, "t", allowed},
		"another host":                   {"allow User:alice 10.0.0.2 Read Topic t", Read, Topic, "t", refused},
		"all topics":                     {"allow User:alice * Read Topic *", Read, Topic, "t", allowed},
		"prefix":                         {"allow User:alice * Read Topic te*", Read, Topic, "test", allowed},
		"the prefix itself":              {"allow User:alice * Read Topic te*", Read, Topic, "te", allowed},
		"shorter than the prefix":        {"allow User:alice * Read Topic te*", Read, Topic, "t", unmentioned},
		"not the prefix":                 {"allow User:alice * Read Topic te*", Read, Topic, "tx-te", unmentioned},
		"two prefixes":                   {"allow User:bob * Read Topic t*;allow User:alice * Read Topic te*", Read, Topic, "test", allowed},
		"deny before allow":              {"allow User:alice * Read Topic t;deny User:alice * Read Topic t", Read, Topic, "t", denied},
		"deny of all topics":             {"allow User:alice * Read Topic t;deny User:alice * Read Topic *", Read, Topic, "t", denied},
		"deny of a prefix":               {"allow User:alice * Read Topic test;deny User:alice * Read Topic t*", Read, Topic, "test", denied},
		"allow of a longer prefix":       {"allow User:alice * Read Topic test*;deny User:alice * Read Topic t*", Read, Topic, "test1", denied},
		"deny from elsewhere":            {"allow User:alice * Read Topic t;deny User:alice 10.0.0.9 Read Topic t", Read, Topic, "t", allowed},
		"deny of everybody":              {"allow User:alice * Read Topic t;deny User:* * Read Topic t", Read, Topic, "t", denied},
		"deny All":                       {"allow User:alice * Read Topic t;deny User:alice * All Topic t", Read, Topic, "t", denied},
		"Read grants Describe":           {"allow User:alice * Read Topic t", Describe, Topic, "t", allowed},
		"Write grants Describe":          {"allow User:alice * Write Topic t", Describe, Topic, "t", allowed},
		"Delete grants Describe":         {"allow User:alice * Delete Topic t", Describe, Topic, "t", allowed},
		"Alter grants Describe":          {"allow User:alice * Alter Topic t", Describe, Topic, "t", allowed},
		"Create does not grant Describe": {"allow User:alice * Create Topic t", Describe, Topic, "t", refused},
		"AlterConfigs, DescribeConfigs":  {"allow User:alice * AlterConfigs Topic t", DescribeConfigs, Topic, "t", allowed},
		"AlterConfigs, not Describe":     {"allow User:alice * AlterConfigs Topic t", Describe, Topic, "t", refused},
		"Describe grants nothing":        {"allow User:alice * Describe Topic t", Read, Topic, "t", refused},
		"deny Read leaves Describe":      {"allow User:alice * Describe Topic t;deny User:alice * Read Topic t", Describe, Topic, "t", allowed},
		"deny Describe leaves Read":      {"allow User:alice * Read Topic t;deny User:alice * Describe Topic t", Read, Topic, "t", allowed},
		"deny Describe":                  {"allow User:alice * Read Topic t;deny User:alice * Describe Topic t", Describe, Topic, "t", denied},
		"a group called *":               {"allow User:alice * Read Group *", Read, Group, "*", allowed},
		"cut in the middle of a rune":    {"allow User:alice * Read Topic a*;deny User:alice * Read Topic é*", Read, Topic, "aé", allowed},
		"empty name":                     {"allow User:alice * Read Topic a*", Read, Topic, "", unmentioned},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSnapshot(aclsOf(t, split(test.acls)...))
			if got := p.decide(alice, test.op, test.kind, test.name); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func split(acls string) []string {
	if acls == "" {
		return nil
	}
	return strings.Split(acls, ";")
}

// TestDecideSomewhere: whether an operation is allowed on any resource of a type (KIP-679).
func TestDecideSomewhere(t *testing.T) {
	alice := Subject{"User:alice", "10.0.0.1"}
	for name, test := range map[string]struct {
		acls string
		want bool
	}{
		"none":                           {"", false},
		"another's":                      {"allow User:bob * Write Topic t", false},
		"a topic":                        {"allow User:alice * Write Topic t", true},
		"All on a topic":                 {"allow User:alice * All Topic t", true},
		"a prefix":                       {"allow User:alice * Write Topic t*", true},
		"everybody on all":               {"allow User:* * Write Topic *", true},
		"implied is not enough":          {"allow User:alice * Read Topic t", false},
		"elsewhere":                      {"allow User:alice 10.0.0.9 Write Topic t", false},
		"a group":                        {"allow User:alice * Write Group t", false},
		"all denied":                     {"allow User:alice * Write Topic t;deny User:* * Write Topic *", false},
		"the same denied":                {"allow User:alice * Write Topic t;deny User:alice * Write Topic t", false},
		"another denied":                 {"allow User:alice * Write Topic t;deny User:alice * Write Topic u", true},
		"a prefix of it denied":          {"allow User:alice * Write Topic test;deny User:alice * Write Topic te*", false},
		"a shorter prefix denied":        {"allow User:alice * Write Topic test*;deny User:alice * Write Topic te*", false},
		"the same prefix denied":         {"allow User:alice * Write Topic te*;deny User:alice * Write Topic te*", false},
		"a longer prefix denied":         {"allow User:alice * Write Topic te*;deny User:alice * Write Topic test*", true},
		"the literal of a prefix denied": {"allow User:alice * Write Topic te*;deny User:alice * Write Topic te", true},
		"all allowed, one denied":        {"allow User:alice * Write Topic *;deny User:alice * Write Topic t*", true},
		"two, one of them covered":       {"allow User:alice * Write Topic t;allow User:alice * Write Topic u;deny User:alice * Write Topic t*", true},
		"Read denied":                    {"allow User:alice * Write Topic t;deny User:alice * Read Topic *", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSnapshot(aclsOf(t, split(test.acls)...))
			if got := p.decideSomewhere(alice, Write, Topic) == allowed; got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// naive evaluates a list of ACLs one by one, as the documentation describes it.
func naive(list []Binding, who Subject, op Operation, t ResourceType, name string) outcome {
	about, granted := false, false
	for _, b := range list {
		applies := b.Type == t && (b.Pattern == literal && (b.Name == name || b.Name == "*") || b.Pattern == prefixed && strings.HasPrefix(name, b.Name))
		if !applies {
			continue
		}
		about = true
		if b.Principal != who.Principal && b.Principal != "User:*" || b.Host != who.Host && b.Host != "*" {
			continue
		}
		same := b.Operation == op || b.Operation == all
		implied := map[Operation][]Operation{Describe: {Read, Write, Delete, Alter}, DescribeConfigs: {AlterConfigs}}
		if b.Permission == kmsg.ACLPermissionTypeDeny && same {
			return denied
		}
		if b.Permission == kmsg.ACLPermissionTypeAllow {
			granted = granted || same
			for _, other := range implied[op] {
				granted = granted || b.Operation == other
			}
		}
	}
	switch {
	case granted:
		return allowed
	case about:
		return refused
	}
	return unmentioned
}

// naiveSomewhere tries every name that occurs in the ACLs, and for each prefix one more name that occurs in none.
func naiveSomewhere(list []Binding, who Subject, t ResourceType) bool {
	exact := make([]Binding, 0, len(list))
	names := []string{"~other"}
	for _, b := range list {
		if b.Operation == Write || b.Operation == all {
			exact = append(exact, b)
			names = append(names, b.Name)
			if b.Pattern == prefixed {
				names = append(names, b.Name+"~other")
			}
		}
	}
	for _, name := range names {
		if name != "*" && naive(exact, who, Write, t, name) == allowed {
			return true
		}
	}
	return false
}

// TestModel compares snapshots that are built step by step with a plain list, for random ACLs and requests.
func TestModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { model(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func model(t *testing.T, rng *rand.Rand) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	name := func() string { return pick("a", "ab", "abc", "abcd", "b", "ba", "*", "c") }
	p, list := newSnapshot(nil), []Binding(nil)
	for range 60 {
		r := Resource{Type: []ResourceType{Topic, Group}[rng.IntN(2)], Pattern: literal, Name: name()}
		if rng.IntN(2) == 0 && r.Name != "*" {
			r.Pattern = prefixed
		}
		var entries []Entry
		for range rng.IntN(4) {
			e := Entry{Principal: pick("User:x", "User:y", "User:*"), Host: pick("*", "1", "2"), Operation: kmsg.ACLOperation(2 + rng.IntN(12)), Permission: kmsg.ACLPermissionTypeAllow}
			if rng.IntN(3) == 0 {
				e.Permission = kmsg.ACLPermissionTypeDeny
			}
			entries = append(entries, e)
		}
		before := p
		was := p.count()
		p = p.with(map[Resource][]Entry{r: entries})
		if before.count() != was {
			t.Fatal("an old snapshot has changed")
		}
		kept := list[:0:0]
		for _, b := range list {
			if b.Resource != r {
				kept = append(kept, b)
			}
		}
		for _, e := range entries {
			kept = append(kept, Binding{r, e})
		}
		list = kept
		if p.count() != len(list) {
			t.Fatalf("%d entries, want %d", p.count(), len(list))
		}
		for range 30 {
			who := Subject{pick("User:x", "User:y", "User:z"), pick("1", "2", "3")}
			op, kind, n := kmsg.ACLOperation(3+rng.IntN(11)), []ResourceType{Topic, Group, Cluster}[rng.IntN(3)], name()
			if got, want := p.decide(who, op, kind, n), naive(list, who, op, kind, n); got != want {
				t.Fatalf("%v %v %v %q: %v, want %v with %v", who, op, kind, n, got, want, list)
			}
			if got, want := p.decideSomewhere(who, Write, kind) == allowed, naiveSomewhere(list, who, kind); got != want {
				t.Fatalf("%v somewhere in %v: %v, want %v with %v", who, kind, got, want, list)
			}
		}
	}
}

// BenchmarkDecide shows that the cost does not grow with ACLs for other resources.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 1000, 100000} {
		acls := make(map[Resource][]Entry)
		for i := range n {
			entries := []Entry{{Principal: "User:alice", Host: "*", Operation: Read, Permission: kmsg.ACLPermissionTypeAllow},
				{Principal: "User:bob", Host: "*", Operation: Write, Permission: kmsg.ACLPermissionTypeAllow}}
			acls[Resource{Type: Topic, Pattern: literal, Name: fmt.Sprintf("topic-%d", i)}] = entries
			acls[Resource{Type: Topic, Pattern: prefixed, Name: fmt.Sprintf("team-%d.", i)}] = entries
		}
		p := newSnapshot(acls)
		who := Subject{"User:bob", "10.0.0.1"}
		for name, topic := range map[string]string{"literal": "topic-5", "prefix": "team-5.orders", "none": "another-topic"} {
			b.Run(fmt.Sprintf("acls=%d/%s", 4*n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p.decide(who, Write, Topic, topic)
				}
			})
		}
		b.Run(fmt.Sprintf("acls=%d/somewhere", 4*n), func(b *testing.B) {
			for b.Loop() {
				p.decideSomewhere(who, Write, Topic)
			}
		})
		b.Run(fmt.Sprintf("acls=%d/change", 4*n), func(b *testing.B) {
			change := map[Resource][]Entry{{Type: Topic, Pattern: literal, Name: "new"}: {{Principal: "User:a", Host: "*", Operation: Read, Permission: kmsg.ACLPermissionTypeAllow}}}
			for b.Loop() {
				p.with(change)
			}
		})
	}
}

// denials returns the number of names with a denying entry, as counted by b and as they really are.
func denials(b byName) (counted, there int) {
	if b.root == nil {
		return 0, 0
	}
	for _, br := range b.root {
		if br != nil {
			counted += br.denials
		}
	}
	for _, entries := range b.all() {
		if denies(entries) {
			there++
		}
	}
	return counted, there
}

// TestSnapshotsArePersistent makes random changes: each snapshot equals one that is built from scratch, and does not
// change when later ones are derived from it.
func TestSnapshotsArePersistent(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	state := make(map[Resource][]Entry)
	type version struct {
		made *snapshot
		want map[Resource][]Entry
	}
	versions := []version{{newSnapshot(nil), nil}}
	for range 200 {
		changes := make(map[Resource][]Entry)
		for range 1 + random.IntN(5) {
			r := Resource{Type: []ResourceType{Topic, Group}[random.IntN(2)], Pattern: []Pattern{literal, prefixed}[random.IntN(2)],
				Name: strings.Repeat("n", 1+random.IntN(4)) + fmt.Sprint(random.IntN(200))}
			changes[r] = slices.Repeat([]Entry{{Principal: fmt.Sprint("User:", random.IntN(100)), Host: "*", Operation: Read, Permission: []Permission{kmsg.ACLPermissionTypeAllow, kmsg.ACLPermissionTypeDeny}[random.IntN(2)]}}, random.IntN(3))
		}
		for r, entries := range changes {
			if state[r] = entries; len(entries) == 0 {
				delete(state, r)
			}
		}
		versions = append(versions, version{versions[len(versions)-1].made.with(changes), maps.Clone(state)})
	}
	for i, v := range versions {
		got := make(map[Resource][]Entry)
		v.made.each(func(r Resource, entries []Entry) { got[r] = entries })
		if !maps.EqualFunc(got, v.want, slices.Equal[[]Entry]) {
			t.Fatalf("seed %d: snapshot %d: %v, want %v", seed, i, got, v.want)
		}
		fresh := newSnapshot(v.want)
		for kind, of := range v.made.types {
			var want []prefixLength
			if f := fresh.types[kind]; f != nil {
				want = f.lengths
			}
			if !slices.Equal(of.lengths, want) {
				t.Fatalf("seed %d: snapshot %d: lengths %v, want %v", seed, i, of.lengths, want)
			}
			for _, names := range []byName{of.literal, of.prefixed} {
				if told, there := denials(names); told != there {
					t.Fatalf("seed %d: snapshot %d: %d names with denials are counted, there are %d", seed, i, told, there)
				}
			}
		}
	}
}
