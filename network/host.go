package network

import (
	"net"
	"strconv"
	"strings"
)

// hostName formats an address as Java does: the groups of an IPv6 address have no leading zeros, and none is left out.
func hostName(ip net.IP) string {
	if v4 := ip.To4(); v4 != nil || len(ip) != net.IPv6len {
		return ip.String()
	}
	parts := make([]string, 0, net.IPv6len/2)
	for i := 0; i < net.IPv6len; i += 2 {
		parts = append(parts, strconv.FormatUint(uint64(ip[i])<<8|uint64(ip[i+1]), 16))
	}
	return strings.Join(parts, ":")
}
