package zkcoord

import (
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// secureRoots are the nodes that, with all below them, only brokers may change where nodes are secured, in Apache Kafka's order.
var secureRoots = []string{
	adminPath, brokersPath, "/cluster", configPath, controllerPath, controllerEpochPath, isrChangePath, producerIDPath, logDirEventPath,
	"/delegation_token", extendedACLPath, "/migration", featurePath,
	aclPath, aclChangesPath, extendedACLPath + "/prefixed", extendedACLChangesPath,
}

// SecureRoots are the nodes, below the chroot, that with all below them only brokers may change where nodes are secured.
func SecureRoots() []string { return slices.Clone(secureRoots) }

// sensitiveRoots begin the paths of nodes with secrets, which only brokers may read where nodes are secured.
var sensitiveRoots = []string{configPath + "/users", configPath + "/brokers", tokensPath}

// NodeACL is who may do what with a node, by its path below the chroot: everybody everything, or where nodes are secured the
// user of the session that makes it; others may read it unless it holds secrets. Old consumers, which are nobody in
// particular, go on writing below /consumers.
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
