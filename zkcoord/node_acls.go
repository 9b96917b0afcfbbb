package zkcoord

import (
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// secureRoots are the roots of the subtrees that only brokers may change if nodes are secured, in Apache Kafka's order.
var secureRoots = []string{
	adminPath, brokersPath, "/cluster", configPath, controllerPath, controllerEpochPath, isrChangePath, producerIDPath, logDirEventPath,
	"/delegation_token", extendedACLPath, "/migration", featurePath,
	aclPath, aclChangesPath, extendedACLPath + "/prefixed", extendedACLChangesPath,
}

// SecureRoots returns the roots, relative to the chroot, of the subtrees that only brokers may change if nodes are
// secured.
func SecureRoots() []string { return slices.Clone(secureRoots) }

// sensitiveRoots are prefixes of the paths of nodes with secrets, which only brokers may read if nodes are secured.
var sensitiveRoots = []string{configPath + "/users", configPath + "/brokers", tokensPath}

// NodeACL returns the ACL of a node by its path relative to the chroot: open to everyone or, if secure, restricted to
// the user of the session that creates it. Others may then read it unless it contains secrets. Old consumers, which
// have no user, can still write below /consumers.
func NodeACL(path string, secure bool) []zk.ACL {
	if !secure || path == consumersPath {
		return zk.WorldACL(zk.PermAll)
	}
	acl := zk.AuthACL(zk.PermAll)
	if !slices.ContainsFunc(sensitiveRoots, func(root string) bool { return strings.HasPrefix(path, root) }) {
		acl = append(acl, zk.WorldACL(zk.PermRead)...)
	}
	return acl
}

func (c *Client) aclOf(path string) []zk.ACL { return NodeACL(path, c.cfg.SecureNodes) }
