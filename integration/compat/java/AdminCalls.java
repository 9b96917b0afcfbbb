import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;

/** Makes the calls of the Java Admin client and prints, a line each, what came of it: AdminCalls HOST:PORT [MECHANISM USER PASSWORD] */
public class AdminCalls {
    private static void call(String name, Callable<?> f) {
        String result;
        try {
            result = String.valueOf(f.call());
        } catch (ExecutionException e) {
            result = "failed: " + e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            result = "failed: " + e.getClass().getSimpleName();
        }
        System.out.println(name + " " + result);
        System.out.flush();
    }

    private static void settle() {
        try {
            Thread.sleep(500);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        if (args.length > 1) {
            p.put("security.protocol", "SASL_PLAINTEXT");
            p.put("sasl.mechanism", args[1]);
            String module = args[1].equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            p.put("sasl.jaas.config", String.format("org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";", module, args[2], args[3]));
        }
        p.put("request.timeout.ms", "10000");
        p.put("default.api.timeout.ms", "15000");
        try (Admin a = Admin.create(p)) {
            topics(a);
            configs(a);
            cluster(a);
            records(a);
            groups(a);
            acls(a);
            tokens(a);
            users(a);
            rest(a);
        }
    }

    private static void topics(Admin a) {
        NewTopic jt = new NewTopic("jt", 2, (short) 1);
        call("createTopics", () -> a.createTopics(List.of(jt)).all().get());
        settle();
        call("createTopics again", () -> a.createTopics(List.of(jt)).all().get());
        call("createTopics validate", () -> a.createTopics(List.of(new NewTopic("jt2", 1, (short) 7)), new CreateTopicsOptions().validateOnly(true)).all().get());
        call("createPartitions", () -> a.createPartitions(Map.of("jt", NewPartitions.increaseTo(3))).all().get());
        call("createPartitions fewer", () -> a.createPartitions(Map.of("jt", NewPartitions.increaseTo(1))).all().get());
        settle();
        call("listTopics", () -> a.listTopics().names().get().contains("jt"));
        call("describeTopics", () -> a.describeTopics(List.of("jt")).allTopicNames().get().get("jt").partitions().size());
        call("describeTopics with rights", () -> sorted(a.describeTopics(List.of("jt"), new DescribeTopicsOptions().includeAuthorizedOperations(true))
            .allTopicNames().get().get("jt").authorizedOperations()));
        call("describeTopics none", () -> a.describeTopics(List.of("none")).allTopicNames().get());
    }

    private static void configs(Admin a) {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "jt");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "0");
        ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "0");
        call("incrementalAlterConfigs", () -> a.incrementalAlterConfigs(Map.of(topic, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all().get());
        call("incrementalAlterConfigs bad", () -> a.incrementalAlterConfigs(Map.of(topic, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "x"), AlterConfigOp.OpType.SET)))).all().get());
        call("incrementalAlterConfigs logger", () -> a.incrementalAlterConfigs(Map.of(logger, List.of(
            new AlterConfigOp(new ConfigEntry("root", "WARN"), AlterConfigOp.OpType.SET)))).all().get());
        settle();
        call("describeConfigs", () -> a.describeConfigs(List.of(topic), new DescribeConfigsOptions().includeSynonyms(true)).all().get().get(topic).entries()
            .stream().map(e -> e.name() + "=" + e.value() + " " + e.source() + " " + e.isReadOnly() + " " + e.type() + " "
                + e.synonyms().stream().map(s -> s.name() + "=" + s.value() + " " + s.source()).collect(Collectors.toList())).sorted().collect(Collectors.toList()));
        call("describeConfigs broker", () -> a.describeConfigs(List.of(broker)).all().get().get(broker).entries().stream()
            .map(e -> e.name() + " " + e.type() + " " + e.isReadOnly() + " " + e.isSensitive()).sorted().collect(Collectors.toList()));
    }

    private static void cluster(Admin a) {
        call("describeCluster", () -> a.describeCluster().nodes().get().size() + " " + a.describeCluster().controller().get().id() + " "
            + a.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations().get().stream().map(Enum::name)
                .sorted().collect(Collectors.toList()));
        call("describeFeatures", () -> a.describeFeatures().featureMetadata().get());
        call("updateFeatures", () -> a.updateFeatures(Map.of("f", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all().get());
        call("describeMetadataQuorum", () -> a.describeMetadataQuorum().quorumInfo().get());
        call("unregisterBroker", () -> a.unregisterBroker(9).all().get());
        call("describeLogDirs", () -> a.describeLogDirs(List.of(0)).allDescriptions().get().get(0).size());
        TopicPartitionReplica replica = new TopicPartitionReplica("jt", 0, 0);
        call("describeReplicaLogDirs", () -> a.describeReplicaLogDirs(List.of(replica)).all().get().size());
        call("alterReplicaLogDirs", () -> a.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all().get());
        TopicPartition tp = new TopicPartition("jt", 0);
        call("electLeaders", () -> a.electLeaders(ElectionType.PREFERRED, Set.of(tp)).partitions().get().values().stream()
            .map(e -> e.map(x -> x.getClass().getSimpleName()).orElse("ok")).collect(Collectors.toList()));
        call("alterPartitionReassignments", () -> a.alterPartitionReassignments(Map.of(tp, Optional.of(new NewPartitionReassignment(List.of(0))))).all().get());
        call("alterPartitionReassignments none", () -> a.alterPartitionReassignments(Map.of(tp, Optional.empty())).all().get());
        call("listPartitionReassignments", () -> a.listPartitionReassignments().reassignments().get());
    }

    private static void records(Admin a) {
        TopicPartition tp = new TopicPartition("jt", 0);
        call("deleteRecords", () -> a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(0))).lowWatermarks().get(tp).get().lowWatermark());
        call("deleteRecords beyond", () -> a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(9))).all().get());
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(5))) {
            call("listOffsets " + spec.getClass().getSimpleName(), () -> a.listOffsets(Map.of(tp, spec)).partitionResult(tp).get());
        }
        call("describeProducers", () -> a.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers());
        call("listTransactions", () -> a.listTransactions().all().get().size());
        call("describeTransactions", () -> a.describeTransactions(List.of("none")).all().get());
        call("abortTransaction", () -> a.abortTransaction(new AbortTransactionSpec(tp, 1, (short) 0, 0)).all().get());
        call("fenceProducers", () -> a.fenceProducers(List.of("jx")).epochId("jx").get());
    }

    private static void groups(Admin a) {
        TopicPartition tp = new TopicPartition("jt", 0);
        call("alterConsumerGroupOffsets", () -> a.alterConsumerGroupOffsets("jg", Map.of(tp, new OffsetAndMetadata(0))).all().get());
        call("listConsumerGroups", () -> a.listConsumerGroups().all().get().stream().filter(g -> g.groupId().equals("jg")).map(g -> g.state() + " " + g.type())
            .collect(Collectors.toList()));
        call("describeConsumerGroups", () -> a.describeConsumerGroups(List.of("jg")).all().get().get("jg").state());
        call("describeConsumerGroups with rights", () -> sorted(a.describeConsumerGroups(List.of("jg"), new DescribeConsumerGroupsOptions()
            .includeAuthorizedOperations(true)).all().get().get("jg").authorizedOperations()));
        call("listConsumerGroupOffsets", () -> a.listConsumerGroupOffsets("jg").partitionsToOffsetAndMetadata().get());
        call("removeMembersFromConsumerGroup", () -> a.removeMembersFromConsumerGroup("jg", new RemoveMembersFromConsumerGroupOptions(
            List.of(new MemberToRemove("nobody")))).all().get());
        call("deleteConsumerGroupOffsets", () -> a.deleteConsumerGroupOffsets("jg", Set.of(tp)).all().get());
        call("deleteConsumerGroups", () -> a.deleteConsumerGroups(List.of("jg")).all().get());
        call("deleteConsumerGroups none", () -> a.deleteConsumerGroups(List.of("none")).all().get());
    }

    private static void acls(Admin a) {
        List<AclBinding> acls = List.of(
            acl(ResourceType.TOPIC, "jt", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW),
            acl(ResourceType.GROUP, "j", PatternType.PREFIXED, "User:b", "10.0.0.1", AclOperation.ALL, AclPermissionType.DENY),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:a", "*", AclOperation.CREATE, AclPermissionType.ALLOW),
            acl(ResourceType.USER, "User:a", PatternType.LITERAL, "User:b", "*", AclOperation.CREATE_TOKENS, AclPermissionType.ALLOW),
            acl(ResourceType.TOPIC, "a/b", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AclBindingFilter group = new AclBindingFilter(new ResourcePatternFilter(ResourceType.GROUP, "jg", PatternType.MATCH), AccessControlEntryFilter.ANY);
        CreateAclsResult made = a.createAcls(acls);
        acls.forEach(acl -> call("createAcls " + acl.pattern(), () -> made.values().get(acl).get()));
        settle();
        call("describeAcls", () -> sorted(a.describeAcls(AclBindingFilter.ANY).values().get()));
        call("describeAcls of a group", () -> sorted(a.describeAcls(group).values().get()));
        call("deleteAcls of a group", () -> sorted(a.deleteAcls(List.of(group)).all().get()));
        call("deleteAcls", () -> sorted(a.deleteAcls(List.of(AclBindingFilter.ANY)).all().get()));
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern, String principal, String host, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(principal, host, operation, permission));
    }

    private static List<String> sorted(Collection<?> values) {
        return values.stream().map(String::valueOf).sorted().collect(Collectors.toList());
    }

    private static void tokens(Admin a) {
        TokenInformation[] made = {null};
        byte[][] hmac = {{1}}; // until there is one
        call("createDelegationToken", () -> {
            DelegationToken token = a.createDelegationToken(new CreateDelegationTokenOptions().maxlifeTimeMs(3600_000)
                .renewers(List.of(new KafkaPrincipal("User", "bob")))).delegationToken().get();
            hmac[0] = token.hmac();
            made[0] = token.tokenInfo();
            return told(token);
        });
        call("createDelegationToken for another", () -> told(a.createDelegationToken(new CreateDelegationTokenOptions()
            .owner(new KafkaPrincipal("User", "carl"))).delegationToken().get()));
        settle();
        call("describeDelegationToken", () -> described(a, new DescribeDelegationTokenOptions()));
        call("describeDelegationToken of another", () -> described(a, new DescribeDelegationTokenOptions().owners(List.of(new KafkaPrincipal("User", "carl")))));
        call("renewDelegationToken", () -> minutes(a.renewDelegationToken(hmac[0]).expiryTimestamp().get(), made[0]));
        settle();
        call("expireDelegationToken", () -> minutes(a.expireDelegationToken(hmac[0], new ExpireDelegationTokenOptions().expiryTimePeriodMs(1800_000))
            .expiryTimestamp().get(), made[0]));
        settle();
        call("expireDelegationToken at once", () -> minutes(a.expireDelegationToken(hmac[0]).expiryTimestamp().get(), made[0]));
        settle();
        call("renewDelegationToken gone", () -> a.renewDelegationToken(hmac[0]).expiryTimestamp().get());
        call("describeDelegationToken left", () -> described(a, new DescribeDelegationTokenOptions()));
    }

    private static List<String> described(Admin a, DescribeDelegationTokenOptions options) throws Exception {
        return a.describeDelegationToken(options).delegationTokens().get().stream().map(AdminCalls::told).sorted().collect(Collectors.toList());
    }

    /** A token without what differs from one to the next. */
    private static String told(DelegationToken token) {
        TokenInformation i = token.tokenInfo();
        return "of " + i.owner() + " by " + i.tokenRequester() + " renewed by " + i.renewers() + " for " + minutes(i.expiryTimestamp(), i) + " of "
            + minutes(i.maxTimestamp(), i);
    }

    /** The minutes from the making of a token on. */
    private static String minutes(long end, TokenInformation token) {
        return Math.round((end - token.issueTimestamp()) / 60_000.0) + " min";
    }

    private static void users(Admin a) {
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of("user", "ju"));
        call("alterClientQuotas", () -> a.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all().get());
        settle();
        call("describeClientQuotas", () -> a.describeClientQuotas(ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", "ju")))).entities().get());
        call("alterUserScramCredentials", () -> a.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("js",
            new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "pw"))).all().get());
        settle();
        call("describeUserScramCredentials", () -> a.describeUserScramCredentials(List.of("js")).all().get().get("js").credentialInfos());
        call("alterUserScramCredentials delete", () -> a.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("js", ScramMechanism.SCRAM_SHA_256))).all().get());
        call("describeUserScramCredentials none", () -> a.describeUserScramCredentials(List.of("none")).all().get());
    }

    private static void rest(Admin a) {
        call("listClientMetricsResources", () -> a.listClientMetricsResources().all().get());
        call("clientInstanceId", () -> a.clientInstanceId(java.time.Duration.ofSeconds(1)));
        call("metrics", () -> a.metrics().isEmpty());
        call("deleteTopics", () -> a.deleteTopics(List.of("jt")).all().get());
        call("deleteTopics none", () -> a.deleteTopics(List.of("none")).all().get());
    }
}
