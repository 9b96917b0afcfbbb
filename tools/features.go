package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataVersion is the feature whose levels have names.
const metadataVersion = "metadata.version"

// metadataVersions are the names of its levels, beginning with 1 (MetadataVersion, 3.9).
var metadataVersions = []string{
	"3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2",
	"3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0",
}

// metadataLevel returns the level with a name. A release alone (3.7) stands for the last of its levels.
func metadataLevel(name string) (int16, error) {
	level := slices.Index(metadataVersions, name)
	for i, v := range metadataVersions {
		if strings.HasPrefix(v, name+"-") {
			level = i
		}
	}
	if level < 0 {
		return 0, fmt.Errorf("unsupported metadata.version %s; supported metadata.version are %s", name, strings.Join(metadataVersions, ", "))
	}
	return int16(level) + 1, nil
}

// levelName formats a feature's level.
func levelName(feature string, level int16) string {
	switch {
	case feature != metadataVersion:
		return strconv.Itoa(int(level))
	case level < 1 || int(level) > len(metadataVersions):
		return fmt.Sprintf("UNKNOWN %d", level)
	}
	return metadataVersions[level-1]
}

// The numbers of UpdateFeatures' UpgradeType.
const (
	upgradeFeature         int8 = 1
	safeDowngradeFeature   int8 = 2
	unsafeDowngradeFeature int8 = 3
)

// featuresOptions is the command line of kafka-features: a command, and the options of all commands.
type featuresOptions struct {
	*adminOptions
	metadata *string
	features *[]string
}

// featureCommands are the commands with their options.
var featureCommands = map[string][]string{
	"describe":  nil,
	"upgrade":   {"metadata", "feature", "dry-run"},
	"downgrade": {"metadata", "feature", "unsafe", "dry-run"},
	"disable":   {"feature", "unsafe", "dry-run"},
}

func newFeaturesOptions() *featuresOptions {
	o := &featuresOptions{adminOptions: newAdminOptions("kafka-features",
		"describe, upgrade, downgrade, disable: show the features of the cluster and change their levels.", "command-config")}
	o.operands = "COMMAND"
	o.String("bootstrap-controller", "", "not supported: clusters with ZooKeeper have no such `address`")
	o.metadata = o.String("metadata", "", "upgrade, downgrade: the `level` of metadata.version, like 3.9-IV0")
	o.features = o.StringArray("feature", nil, "upgrade, downgrade: `feature=level`; disable: the feature's name. May be repeated")
	o.Bool("unsafe", false, "downgrade, disable: even if metadata is lost")
	o.Bool("dry-run", false, "only check the change")
	o.BoolP("h", "h", false, "as --help")
	return o
}

func features(ctx context.Context, env *Env) error {
	o := newFeaturesOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if o.has("h") {
		o.usage(env)
		return exitCode(1)
	}
	command, err := o.command()
	if err != nil {
		return err
	}
	var updates map[string]kmsg.UpdateFeaturesRequestFeatureUpdate
	if command != "describe" {
		if updates, err = o.updates(command); err != nil {
			return err
		}
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		if command == "describe" {
			return describeFeatures(ctx, env, cl)
		}
		return updateFeatures(ctx, env, cl, command, updates, o.has("dry-run"))
	})
}

// command returns the argument, after checking the options against those of the command.
func (o *featuresOptions) command() (string, error) {
	if o.has("bootstrap-controller") {
		return "", usagef("option %q is not supported: give --bootstrap-server", "bootstrap-controller")
	}
	if err := o.require("bootstrap-server"); err != nil {
		return "", err
	}
	if len(o.args) != 1 {
		return "", usagef("one command is needed: describe, upgrade, downgrade or disable")
	}
	takes, known := featureCommands[o.args[0]]
	if !known {
		return "", usagef("invalid choice: '%s' (choose from 'describe', 'upgrade', 'downgrade', 'disable')", o.args[0])
	}
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		if name != "bootstrap-server" && name != "command-config" && !slices.Contains(takes, name) {
			return "", usagef("the command %s takes no option %q", o.args[0], name)
		}
	}
	return o.args[0], nil
}

// updates returns the requested changes, by feature.
func (o *featuresOptions) updates(command string) (map[string]kmsg.UpdateFeaturesRequestFeatureUpdate, error) {
	kind := upgradeFeature
	switch {
	case command != "upgrade" && o.has("unsafe"):
		kind = unsafeDowngradeFeature
	case command != "upgrade":
		kind = safeDowngradeFeature
	}
	updates := make(map[string]kmsg.UpdateFeaturesRequestFeatureUpdate)
	add := func(name string, level int16) error {
		if _, twice := updates[name]; twice {
			return usagef("feature %s was specified more than once", name)
		}
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = name, level, kind, kind != upgradeFeature
		updates[name] = u
		return nil
	}
	if o.has("metadata") {
		level, err := metadataLevel(*o.metadata)
		if err == nil {
			err = add(metadataVersion, level)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, text := range *o.features {
		name, level, err := text, int16(0), error(nil)
		if command != "disable" {
			name, level, err = parseFeature(text)
		}
		if err == nil {
			err = add(name, level)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(updates) == 0 {
		return nil, usagef("you must specify at least one feature to %s", command)
	}
	return updates, nil
}

// parseFeature parses feature=level.
func parseFeature(text string) (name string, level int16, err error) {
	name, number, ok := strings.Cut(text, "=")
	if !ok {
		return "", 0, usagef("can't parse feature=level string %s: equals sign not found", text)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 16)
	if err != nil {
		return "", 0, usagef("can't parse feature=level string %s: unable to parse %s as a short", text, number)
	}
	return strings.TrimSpace(name), int16(n), nil
}

func describeFeatures(ctx context.Context, env *Env, cl *kgo.Client) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "barnabas", Version
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	epoch := "-"
	if resp.FinalizedFeaturesEpoch >= 0 {
		epoch = strconv.FormatInt(resp.FinalizedFeaturesEpoch, 10)
	}
	finalized := make(map[string]int16, len(resp.FinalizedFeatures))
	for _, f := range resp.FinalizedFeatures {
		finalized[f.Name] = f.MaxVersionLevel
	}
	slices.SortFunc(resp.SupportedFeatures, func(a, b kmsg.ApiVersionsResponseSupportedFeature) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range resp.SupportedFeatures {
		env.printf("Feature: %s\tSupportedMinVersion: %s\tSupportedMaxVersion: %s\tFinalizedVersionLevel: %s\tEpoch: %s\n",
			f.Name, levelName(f.Name, f.MinVersion), levelName(f.Name, f.MaxVersion), levelName(f.Name, finalized[f.Name]), epoch)
	}
	return nil
}

func updateFeatures(ctx context.Context, env *Env, cl *kgo.Client, command string, updates map[string]kmsg.UpdateFeaturesRequestFeatureUpdate, dryRun bool) error {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis, req.ValidateOnly = requestTimeoutMs, dryRun
	names := slices.Sorted(maps.Keys(updates))
	for _, name := range names {
		req.FeatureUpdates = append(req.FeatureUpdates, updates[name])
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	// An error of the request applies to each, unless it has one of its own.
	errs := make(map[string]error, len(names))
	for _, name := range names {
		errs[name] = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	for _, r := range resp.Results {
		errs[r.Feature] = answered(r.ErrorCode, r.ErrorMessage)
	}
	could, was := "Could not", "was"
	if dryRun {
		could, was = "Can not", "can be"
	}
	failed := 0
	for _, name := range names {
		did, done := fmt.Sprintf("%s %s to %d", command, name, updates[name].MaxVersionLevel), fmt.Sprintf("%sd to %d", command, updates[name].MaxVersionLevel)
		if command == "disable" {
			did, done = "disable "+name, "disabled"
		}
		if err := errs[name]; err != nil {
			env.printf("%s %s. %s\n", could, did, message(err))
			failed++
			continue
		}
		env.printf("%s %s %s.\n", name, was, done)
	}
	if failed > 0 {
		return fmt.Errorf("%d out of %d operation(s) failed", failed, len(names))
	}
	return nil
}
