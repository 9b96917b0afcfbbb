package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"barnabas/config"
	"barnabas/config/password"
	"barnabas/internal/scram"
	"barnabas/zkcoord"
)

// storedConfigs describes and alters configs directly in ZooKeeper, for what must exist before brokers run: their
// passwords, encrypted, and the credentials of the users that they log in as (ConfigCommand with --zookeeper, 3.9).
type storedConfigs struct {
	o   *configsOptions
	env *Env
	zk  *zkcoord.Client
}

// checkStored checks the command line with --zookeeper.
func (o *configsOptions) checkStored() error {
	for _, e := range o.entities {
		if e.kind != "users" && e.kind != "brokers" {
			return usagef("invalid entity type %s, the entity type must be one of users, brokers with a --zookeeper argument", e.kind)
		}
	}
	switch {
	case o.has("bootstrap-server"):
		return usagef("only one of --bootstrap-server and --zookeeper can be specified")
	case o.has("all"):
		return usagef("--bootstrap-server must be specified for --all")
	case len(o.entities) > 1:
		return usagef("only one entity may be specified with --zookeeper")
	}
	return nil
}

func (o *configsOptions) runStored(ctx context.Context, env *Env) error {
	env.println("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
	env.println("Use --bootstrap-server instead to specify a broker to connect to.")
	if err := env.flush(); err != nil {
		return err
	}
	e := o.entities[0]
	if e.kind == "brokers" && e.name == nil {
		return usagef("--entity-name or --entity-default must be specified for brokers with --zookeeper")
	}
	access, err := zooKeeperAccess(env, *o.zkTLSFile)
	if err != nil {
		return err
	}
	zk, err := access.connectZooKeeper(ctx, "--zookeeper ", *o.zookeeper, o.has("describe"), access.known())
	if err != nil {
		return err
	}
	defer zk.Close()
	s := &storedConfigs{o: o, env: env, zk: zk}
	if err := s.refuseRunning(ctx, e); err != nil {
		return err
	}
	if o.has("alter") {
		return s.alter(ctx, e)
	}
	return s.describe(ctx, e)
}

// refuseRunning refuses changes for running brokers: they must be asked, so that they check what is set.
func (s *storedConfigs) refuseRunning(ctx context.Context, e entity) error {
	if e.kind != "brokers" {
		return nil
	}
	brokers, err := s.zk.Brokers(ctx)
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if *e.name == "" || *e.name == strconv.Itoa(int(b.ID)) {
			return fmt.Errorf("--bootstrap-server must be specified for brokers, since broker %d is running", b.ID)
		}
	}
	return nil
}

// stored returns the ZooKeeper entity of an entity's configs.
func stored(e entity) zkcoord.Entity {
	switch {
	case *e.name == "":
		return zkcoord.Entity{Kind: zkcoord.EntityKind(e.kind), Name: zkcoord.DefaultEntity}
	case e.kind == "users":
		return zkcoord.Entity{Kind: zkcoord.Users, Name: zkcoord.SanitizeName(*e.name)}
	}
	return zkcoord.Entity{Kind: zkcoord.Brokers, Name: *e.name}
}

// storedName returns an entity as it is printed.
func storedName(e entity) string {
	kind := e.kind
	if kind == "users" {
		kind = "user-principal"
	}
	if *e.name == "" {
		return "default " + kind
	}
	return fmt.Sprintf("%s '%s'", kind, *e.name)
}

func (s *storedConfigs) alter(ctx context.Context, e entity) error {
	add, err := s.o.additions()
	if err != nil {
		return err
	}
	remove := s.o.deletions()
	settings := make(map[string]string, len(add))
	for _, a := range add {
		settings[a.name] = a.value
	}
	if e.kind == "users" {
		err = storedCredentials(settings, remove)
	} else {
		err = storedSettings(settings, *e.name == "")
	}
	if err != nil {
		return err
	}
	checked := false // a second attempt may find that the first one, whose response was lost, has removed them
	err = s.zk.UpdateEntityConfigEarly(ctx, stored(e), func(configs map[string]string) (map[string]string, error) {
		if err := refuseAbsent(remove, configs); err != nil && !checked {
			return nil, err
		}
		checked = true
		maps.Copy(configs, settings)
		maps.DeleteFunc(configs, func(name, _ string) bool { return slices.Contains(remove, name) })
		return configs, nil
	})
	if err != nil {
		return err
	}
	s.env.printf("Completed updating config for entity: %s.\n", storedName(e))
	return nil
}

// storedCredentials replaces the passwords of a user's SCRAM credentials with salted ones. Nothing else can be set for
// a user without a broker.
func storedCredentials(settings map[string]string, remove []string) error {
	for _, name := range append(slices.Sorted(maps.Keys(settings)), remove...) {
		if _, ok := scram.Named(name); !ok {
			return usagef("--bootstrap-server must be specified for %s: with --zookeeper only SCRAM credentials of users can be changed", name)
		}
	}
	for name, text := range settings {
		m, _ := scram.Named(name)
		p, err := salt(m, text)
		if err != nil {
			return err
		}
		settings[name] = m.Credential(p.salt, p.salted, p.iterations)
	}
	return nil
}

// storedSettings checks a broker's settings and encrypts the passwords among them, in place, according to the settings
// password.encoder.*, which are not stored.
func storedSettings(settings map[string]string, all bool) error {
	encoder := password.Encoder{Cipher: password.DefaultCipher, KeyBits: password.DefaultKeyBits, Iterations: password.DefaultIterations}
	secret := false
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		var err error
		switch name {
		case "password.encoder.secret":
			encoder.Secret, secret = value, true
		case "password.encoder.cipher.algorithm":
			encoder.Cipher = value
		case "password.encoder.keyfactory.algorithm":
			encoder.KeyFactory = value
		case "password.encoder.key.length":
			encoder.KeyBits, err = strconv.Atoi(value)
		case "password.encoder.iterations":
			encoder.Iterations, err = strconv.Atoi(value)
		case "password.encoder.old.secret":
		default:
			continue
		}
		if err != nil {
			return usagef("%s=%s is not a number", name, value)
		}
		delete(settings, name)
	}
	if err := config.CheckDynamic(settings, all); err != nil {
		return err
	}
	for name, value := range settings {
		if !config.IsDynamicPassword(name) {
			continue
		}
		if !secret {
			return usagef("password.encoder.secret must be specified to update %s; it encrypts the password and is not stored", name)
		}
		encoded, err := encoder.Encode(value)
		if err != nil {
			return err
		}
		settings[name] = encoded
	}
	return nil
}

func (s *storedConfigs) describe(ctx context.Context, e entity) error {
	if e.name != nil {
		configs, err := s.zk.EntityConfig(ctx, stored(e))
		if err != nil {
			return err
		}
		s.print(storedName(e), configs)
		return nil
	}
	all, err := s.zk.AllEntityConfigs(ctx, zkcoord.Users)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, _, isClient := (zkcoord.Entity{Kind: zkcoord.Users, Name: name}).UserAndClient(); isClient || len(all[name]) == 0 {
			continue
		}
		user := zkcoord.DesanitizeName(name)
		if name == zkcoord.DefaultEntity {
			user = ""
		}
		s.print(storedName(entity{"users", &user}), all[name])
	}
	return nil
}

func (s *storedConfigs) print(name string, configs map[string]string) {
	pairs := make([]string, 0, len(configs))
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		pairs = append(pairs, key+"="+configs[key])
	}
	s.env.printf("Configs for %s are %s\n", name, strings.Join(pairs, ","))
}
