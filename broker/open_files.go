package broker

import "golang.org/x/sys/unix"

// maxOpenFiles returns how many segment files may stay open: half of the process's limit, since connections need
// descriptors too. Apache Kafka keeps all of them open.
func maxOpenFiles() int {
	const least, most = 100, 1 << 20
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(max(min(limit.Cur/2, most), least))
}
