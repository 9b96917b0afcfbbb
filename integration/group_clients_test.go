package integration

import (
	"github.com/Shopify/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// usualClients are the client libraries that every development machine has; others need the build tag compat. Commits
// do not depend on the assignment strategy, so one client per library tests all ways to commit.
var usualClients = map[string]groupClient{
	"sarama range":                saramaClient(sarama.BalanceStrategyRange, commitAuto, commitSync, commitSpecific),
	"sarama round robin":          saramaClient(sarama.BalanceStrategyRoundRobin, commitAuto),
	"sarama sticky":               saramaClient(sarama.BalanceStrategySticky, commitAuto),
	"franz-go cooperative sticky": franzClient(kgo.CooperativeStickyBalancer(), allCommits...),
	"franz-go range":              franzClient(kgo.RangeBalancer(), commitAuto),
	"kcat":                        kcatClient,
	"kafka-python of Debian":      {join: pythonJoiner("/usr/bin/python3", "kafka-python"), patterns: true, commits: allCommits},
}

func saramaClient(strategy sarama.BalanceStrategy, commits ...string) groupClient {
	return groupClient{join: saramaJoiner(strategy), static: true, commits: commits}
}

func franzClient(balancer kgo.GroupBalancer, commits ...string) groupClient {
	return groupClient{join: franzJoiner(balancer), static: true, patterns: true, commits: commits}
}
