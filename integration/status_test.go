package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// statusCluster is three brokers, one of which leads a partition that is slowly being reassigned, with a group that
// lags.
type statusCluster struct {
	*kafkatest.Cluster
	pages  []string // host:port of the brokers' status pages
	client *kgo.Client
	admin  *kadm.Client
}

// evil is a group's name that would be interpreted as markup if the page allowed it.
const evil = `<img src=x onerror="document.title='broken'">`

func startStatusCluster(t *testing.T) *statusCluster {
	t.Helper()
	c := &statusCluster{pages: make([]string, 3)}
	for i := range c.pages {
		c.pages[i] = testport.Address(t)
	}
	c.Cluster = kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.PerBroker(func(id int) map[string]string {
		return map[string]string{"metrics.listener": c.pages[id], "broker.rack": fmt.Sprintf("rack-%d", id), "offsets.topic.num.partitions": "1",
			"replica.fetch.max.bytes": "150000", "replica.fetch.response.max.bytes": "150000"} // a single response must not contain everything
	}))
	client := newClient(t, kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	t.Cleanup(client.Close)
	c.client, c.admin = client, kadm.NewClient(client)
	return c
}

// fill creates a topic with some MB in its only partition, and commits half of it for two groups.
func (c *statusCluster) fill(t *testing.T, ctx context.Context) {
	t.Helper()
	_, err := c.admin.CreateTopic(ctx, 1, 1, map[string]*string{"leader.replication.throttled.replicas": kadm.StringPtr("*"),
		"follower.replication.throttled.replicas": kadm.StringPtr("*")}, "orders")
	must(t, err)
	for range 40 {
		must(t, c.client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: make([]byte, 100_000)}).FirstErr())
	}
	for _, group := range []string{"billing", evil} {
		offsets := make(kadm.Offsets)
		offsets.AddOffset("orders", 0, 15, -1)
		must(t, c.admin.CommitAllOffsets(ctx, group, offsets))
	}
}

// move begins to move the partition, which takes minutes with its throttle, to the two brokers that do not have it.
func (c *statusCluster) move(t *testing.T, ctx context.Context) (leader int) {
	t.Helper()
	topics, err := c.admin.ListTopics(ctx, "orders")
	must(t, err)
	leader = int(topics["orders"].Partitions[0].Leader)
	altered, err := c.admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "leader.replication.throttled.rate", Value: kadm.StringPtr("100000")}}, int32(leader))
	must(t, err)
	must(t, altered[0].Err)
	until(t, "the leader hears of the throttle", func(ctx context.Context) bool { // otherwise everything is copied before
		found, err := c.admin.DescribeBrokerConfigs(ctx, int32(leader))
		must(t, err)
		return slices.ContainsFunc(found[0].Configs, func(s kadm.Config) bool {
			return s.Key == "leader.replication.throttled.rate" && s.MaybeValue() == "100000"
		})
	})

	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("orders", 0, []int32{int32(leader+1) % 3, int32(leader+2) % 3})
	answers, err := c.admin.AlterPartitionAssignments(ctx, req)
	must(t, err)
	must(t, answers.Error())
	return leader
}

// statusSnapshot is part of the content of /status.json.
type statusSnapshot struct {
	Cluster *struct {
		Controller      int32
		Brokers         []struct{ ID int32 }
		UnderReplicated int
	}
	Loading []struct{ Done bool }
	Groups  []struct {
		Name                     string
		Lag, Partitions, Unknown int
	}
	Moves []struct {
		Topic    string
		Adding   []int32
		Progress float64
	} `json:"reassignments"`
}

func (c *statusCluster) snapshot(t *testing.T, broker int) statusSnapshot {
	t.Helper()
	code, body := scrape(t, c.pages[broker], "/status.json")
	var s statusSnapshot
	if err := json.Unmarshal([]byte(body), &s); code != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	return s
}

// TestStatusPage requests the page of every broker while a reassignment runs and a group lags, and loads that of the
// partition's leader in a browser. With STATUS_PAGE_PNG a screenshot is written to that file.
func TestStatusPage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := startStatusCluster(t)
	c.fill(t, ctx)
	leader := c.move(t, ctx)
	await(t, "something was copied", func(context.Context) (string, bool) {
		s := c.snapshot(t, leader)
		return fmt.Sprintf("%+v", s), len(s.Moves) == 1 && s.Moves[0].Progress > 0
	})
	for id := range c.pages { // a snapshot may be a second old
		await(t, fmt.Sprintf("broker %d tells what is", id), func(context.Context) (string, bool) {
			complaint := c.complaint(t, id)
			return complaint, complaint == ""
		})
	}
	t.Run("in a browser", func(t *testing.T) {
		need(t, "Debian's chromium", hasProgram("chromium"))
		c.browse(t, ctx, leader)
		c.accessible(t, ctx, leader)
		for scheme, paper := range map[string]color.NRGBA{"1": {0xf7, 0xf7, 0xf5, 0xff}, "0": {0x16, 0x18, 0x1b, 0xff}} { // light and dark, by Blink's numbers
			shot := filepath.Join(t.TempDir(), "page.png")
			chromium(t, ctx, "--blink-settings=preferredColorScheme="+scheme, "--virtual-time-budget=5000", "--window-size=600,400", "--screenshot="+shot, "http://"+c.pages[leader]+"/")
			data, err := os.ReadFile(shot)
			must(t, err)
			picture, err := png.Decode(bytes.NewReader(data))
			must(t, err)
			if got := color.NRGBAModel.Convert(picture.At(1, 1)); got != paper {
				t.Errorf("in the scheme %s the page's ground is %v, want %v", scheme, got, paper)
			}
		}
	})
}

// accessible checks what the page offers to screen readers.
func (c *statusCluster) accessible(t *testing.T, ctx context.Context, broker int) {
	t.Helper()
	dom := chromium(t, ctx, "--virtual-time-budget=8000", "--window-size=400,800", "--dump-dom", "http://"+c.pages[broker]+"/")
	_, body, _ := strings.Cut(dom, "<body>")
	body, _, _ = strings.Cut(body, "<script>")
	for _, rule := range []struct{ tag, must string }{
		{"<th", "scope="}, {"<table", "aria-labelledby="}, {"<section", "aria-labelledby="}, {"<progress", "aria-label="}, {"<svg", "aria-label="},
	} {
		tags := regexp.MustCompile(rule.tag+`[ >][^>]*`).FindAllString(body, -1)
		if len(tags) == 0 {
			t.Errorf("the page does not contain %s", rule.tag)
		}
		for _, tag := range tags {
			if !strings.Contains(tag, rule.must) {
				t.Errorf("%s does not contain %s", tag, rule.must)
			}
		}
	}
	if !strings.Contains(body, `tabindex="0"`) {
		t.Error("on a narrow screen, tables that are too wide cannot be scrolled with the keyboard")
	}
	if strings.Count(dom, "<h1") != 1 || !strings.Contains(dom, `<html lang="en"`) || !strings.Contains(body, `role="status"`) {
		t.Error("the page lacks its heading, language or status")
	}
}

// complaint returns what is wrong with a broker's page. The group's coordinator need not host the partition: it asks
// the leader then.
func (c *statusCluster) complaint(t *testing.T, broker int) string {
	s := c.snapshot(t, broker)
	switch {
	case len(s.Moves) != 1 || len(s.Moves[0].Adding) != 2 || s.Moves[0].Topic != "orders":
		return fmt.Sprintf("reassignments %+v", s.Moves)
	case s.Cluster == nil || len(s.Cluster.Brokers) != 3 || s.Cluster.Controller < 0 || s.Cluster.UnderReplicated == 0:
		return fmt.Sprintf("cluster %+v", s.Cluster)
	case len(s.Loading) != 1 || !s.Loading[0].Done:
		return fmt.Sprintf("loading %+v", s.Loading)
	}
	for _, g := range s.Groups {
		if g.Lag != 25 || g.Unknown != 0 {
			return fmt.Sprintf("groups %+v", s.Groups)
		}
	}
	return ""
}

// browse loads the page in a browser.
func (c *statusCluster) browse(t *testing.T, ctx context.Context, broker int) {
	t.Helper()
	url := "http://" + c.pages[broker] + "/"
	dom := chromium(t, ctx, "--virtual-time-budget=8000", "--dump-dom", url)
	for _, want := range []string{"Broker " + fmt.Sprint(broker), "Reassignments", "orders-0", "<progress", "Partitions in trouble", "Log directories", "rack-1"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	coordinators := 0
	for id := range c.pages {
		dom := chromium(t, ctx, "--virtual-time-budget=8000", "--dump-dom", "http://"+c.pages[id]+"/")
		if strings.Contains(dom, "<title>broken") || strings.Contains(dom, "<img") {
			t.Error("a group's name was interpreted as markup")
		}
		if len(c.snapshot(t, id).Groups) == 0 {
			continue
		}
		coordinators++
		if !strings.Contains(dom, ">billing<") || !strings.Contains(dom, "<polyline") {
			t.Error("the page lacks the group with its chart")
		}
	}
	if coordinators != 1 {
		t.Errorf("%d brokers coordinate the groups", coordinators)
	}
	if file := os.Getenv("STATUS_PAGE_PNG"); file != "" {
		c.picture(t, ctx, broker, file)
	}
}

// picture writes a screenshot of the page of the moved partition's leader, after some traffic, if that broker
// coordinates the groups, too.
func (c *statusCluster) picture(t *testing.T, ctx context.Context, leader int, file string) {
	t.Helper()
	var first kadm.AlterPartitionAssignmentsReq
	first.Assign("__consumer_offsets", 0, []int32{int32(leader), int32(leader+1) % 3, int32(leader+2) % 3})
	answers, err := c.admin.AlterPartitionAssignments(ctx, first)
	must(t, errors.Join(err, answers.Error()))
	until(t, "the leader coordinates", func(ctx context.Context) bool {
		var offsets kadm.TopicsSet
		offsets.Add("__consumer_offsets", 0)
		_, err := c.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, offsets)
		must(t, err)
		return len(c.snapshot(t, leader).Groups) > 0
	})
	_, err = c.admin.DeleteGroup(ctx, evil)
	must(t, err)
	_, err = c.admin.CreateTopic(ctx, 6, 3, nil, "clicks")
	must(t, err)
	for i := range 60 {
		for range 1 + 30*(i%12)/11 {
			must(t, c.client.ProduceSync(ctx, &kgo.Record{Topic: "clicks", Partition: int32(i % 6), Value: make([]byte, 20_000)}).FirstErr())
		}
		offsets := make(kadm.Offsets)
		offsets.AddOffset("clicks", int32(i%6), int64(i), -1)
		must(t, c.admin.CommitAllOffsets(ctx, "recommendations", offsets))
		time.Sleep(time.Second)
	}
	shot := filepath.Join(t.TempDir(), "page.png")
	chromium(t, ctx, "--virtual-time-budget=8000", "--hide-scrollbars", "--window-size=1150,1360", "--screenshot="+shot, "http://"+c.pages[leader]+"/")
	data, err := os.ReadFile(shot)
	must(t, err)
	if _, err := png.Decode(bytes.NewReader(data)); err != nil || len(data) > 200<<10 {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	must(t, os.WriteFile(file, data, 0o644))
}

// chromium runs the browser without a screen and returns what it prints.
func chromium(t *testing.T, ctx context.Context, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir=" + t.TempDir()}, args...)...)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v: %s", err, stderr.String())
	}
	return string(out)
}
