package config

// ownKeys: not keys of Apache Kafka 3.9. The first ten are ours; the others are of releases
// before 3.0, still read so that an old file works.
var ownKeys = []Key{
	{"metrics.listener", String, null, nil, Low, ReadOnly,
		"The host:port on which metrics are served over HTTP; unset serves none."},
	{"metrics.pprof", Boolean, "false", nil, Low, ReadOnly,
		"Serves profiles of the running broker too, under /debug/pprof/ of metrics.listener."},
	{"log.dir.min.free.bytes", Long, "10485760", atLeast(0), Low, ReadOnly,
		"The free space of a log folder below which clients' records are refused; 0 is not to look."},
	{"zookeeper.embedded", Boolean, "false", nil, Low, ReadOnly,
		"Serves the ZooKeeper protocol from within the broker, at the first address of zookeeper.connect; for development."},
	{"zookeeper.embedded.dir", String, null, nil, Low, ReadOnly,
		"The folder of the embedded ZooKeeper; unset is the folder zookeeper beside the first log folder."},
	{"java.security.auth.login.config", String, null, nil, Low, ReadOnly,
		"A file of login configurations as Java reads it, for listeners with SASL that have none of their own in sasl.jaas.config, and for ZooKeeper."},
	{"java.security.krb5.conf", String, "/etc/krb5.conf", nil, Low, ReadOnly,
		"The configuration of Kerberos, for listeners with GSSAPI."},
	{"zookeeper.sasl.client", Boolean, "true", nil, Low, ReadOnly,
		"Logs in to ZooKeeper when java.security.auth.login.config names a file with a login configuration for that."},
	{"zookeeper.sasl.clientconfig", String, "Client", nil, Low, ReadOnly,
		"The section of java.security.auth.login.config with the login to ZooKeeper."},
	{"zookeeper.sasl.client.username", String, "zookeeper", nil, Low, ReadOnly,
		"The first part of the principals of ZooKeeper's servers, for a login there with Kerberos."},
	{"advertised.host.name", String, null, nil, Low, ReadOnly,
		"The advertised host where advertised.listeners is not given."},
	{"advertised.port", Int, null, nil, Low, ReadOnly,
		"The advertised port where advertised.listeners is not given."},
	{"host.name", String, null, nil, Low, ReadOnly,
		"The host to listen on where listeners is not given."},
	{"port", Int, null, nil, Low, ReadOnly,
		"The port to listen on where listeners is not given."},
}
