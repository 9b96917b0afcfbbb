package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"barnabas/config"
	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
)

// securityMigration sets the ACLs of a cluster's ZooKeeper nodes, as zookeeper.set.acl does for new ones.
func securityMigration(ctx context.Context, env *Env) error {
	o := newOptions("zookeeper-security-migration", "restrict a cluster's ZooKeeper nodes to the user that brokers log in as, or open them to "+
		"everyone again.\nTo secure a cluster: give each broker a login ("+config.LoginFileKey+" or a certificate) and restart it; set "+
		"zookeeper.set.acl=true and restart each again; then run this. To open it: set zookeeper.set.acl=false and restart each broker, run "+
		"this, then remove the logins. The tool logs in as brokers do: the variable KAFKA_OPTS names the file of login configurations, -D"+
		config.LoginFileKey+"=FILE.")
	kind := o.String("zookeeper.acl", "", "`secure` restricts the nodes, unsecure opens them (required)")
	connect := o.String("zookeeper.connect", "localhost:2181", "the cluster's ZooKeeper, `host:port,.../chroot`")
	session := o.Int("zookeeper.session.timeout", 30000, "timeout of the session, in `ms`")
	connection := o.Int("zookeeper.connection.timeout", 30000, "how long the connection may take, in `ms`")
	check := o.Bool("enable.path.check", false, "change nothing if one of the cluster's root nodes is missing")
	tlsFile := o.String("zk-tls-config-file", "", "settings zookeeper.ssl.* of an encrypted connection; `file`")
	if err := o.parse(env); err != nil {
		return err
	}
	if *kind != "secure" && *kind != "unsecure" {
		return usagef("--zookeeper.acl must be secure or unsecure")
	}
	access, err := zooKeeperAccess(env, *tlsFile)
	if err != nil {
		return err
	}
	if !access.known() {
		return fmt.Errorf("ZooKeeper would not know this user: name a file with a login configuration for ZooKeeper in "+
			"KAFKA_OPTS=-D%s=FILE, or by --zk-tls-config-file one with zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location", config.LoginFileKey)
	}
	if access.login != nil {
		access.login.Optional = false
	}
	access.session, access.connect = time.Duration(*session)*time.Millisecond, time.Duration(*connection)*time.Millisecond
	s, err := dialZooKeeper(ctx, &Env{Stdout: io.Discard, Stderr: env.Stderr}, *connect, access)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	m := &migration{env: env, conn: s.conn, chroot: s.chroot, secure: *kind == "secure"}
	return m.run(ctx, *check)
}

// migration sets the ACLs of nodes.
type migration struct {
	env    *Env
	conn   *zk.Conn
	chroot string
	secure bool
	set    atomic.Int64
}

func (m *migration) run(ctx context.Context, check bool) error {
	shown := startProgress(m.env, func(time.Duration) string { return fmt.Sprintf("%d nodes", m.set.Load()) })
	defer shown.close()
	if err := m.setACL("/"); err != nil {
		return err
	}
	if err := m.lookForRoots(check); err != nil {
		return err
	}
	for _, root := range zkcoord.SecureRoots() {
		if err := m.secureRoot(ctx, root); err != nil {
			return fmt.Errorf("%s: %w; nodes before it are changed, run this again", m.chroot+root, err)
		}
	}
	return nil
}

// lookForRoots reports which of a cluster's root nodes are missing, which suggests a wrong chroot.
func (m *migration) lookForRoots(check bool) error {
	var missing []string
	for _, root := range zkcoord.SecureRoots() {
		found, _, err := m.conn.Exists(m.chroot + root)
		if err != nil {
			return fmt.Errorf("%s: %w", m.chroot+root, err)
		}
		if !found {
			missing = append(missing, root)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	m.env.printf("Warning: The following secure root paths do not exist in ZooKeeper: %s\n", strings.Join(missing, ","))
	m.env.println("That might be due to an incorrect chroot is specified when executing the command.")
	if check {
		m.env.println("Exit the command.")
		return exitCode(1)
	}
	return m.env.flush()
}

// secureRoot sets the ACLs of a node and its descendants. A missing node is created, so that nobody else does, unless
// its mere existence has a meaning.
func (m *migration) secureRoot(ctx context.Context, root string) error {
	if root != controllerNode && root != migrationNode {
		if err := m.make(root); err != nil {
			return err
		}
	}
	return walkDown(ctx, root, m.secureNode)
}

// secureNode sets a node's ACL and returns the paths of its children. It is not an error if the node has been deleted.
func (m *migration) secureNode(path string) ([]string, error) {
	if err := m.setACL(path); err != nil {
		return nil, err
	}
	names, _, err := m.conn.Children(m.chroot + path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	for i := range names {
		names[i] = path + "/" + names[i]
	}
	return names, err
}

func (m *migration) setACL(path string) error {
	at := m.chroot + path
	if path == "/" && m.chroot != "" {
		at = m.chroot
	}
	_, err := m.conn.SetACL(at, zkcoord.NodeACL(path, m.secure), anyVersion)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the ACL of %s: %w", at, err)
	}
	m.set.Add(1)
	return nil
}

// make creates a node without data, and its parents, unless they exist.
func (m *migration) make(path string) error {
	_, err := m.conn.Create(m.chroot+path, nil, zk.FlagPersistent, zkcoord.NodeACL(path, m.secure))
	if parent := path[:strings.LastIndexByte(path, '/')]; errors.Is(err, zk.ErrNoNode) && parent != "" {
		if err := m.make(parent); err != nil {
			return err
		}
		_, err = m.conn.Create(m.chroot+path, nil, zk.FlagPersistent, zkcoord.NodeACL(path, m.secure))
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

const (
	controllerNode = "/controller" // there is a controller
	migrationNode  = "/migration"  // a migration to KRaft is in progress
	anyVersion     = -1            // any version of the ACL
)
