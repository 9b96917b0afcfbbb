"""Makes every call of an admin client for Python and prints, a line each, what came of it.

   admin.py kafka-python|confluent-kafka HOST:PORT [MECHANISM USER PASSWORD]
"""
import enum
import sys
import time

HIDDEN = {'error_message', 'message', 'cluster_id', 'topic_id', 'timestamp', 'port', 'host', 'log_dir', 'total_bytes', 'usable_bytes',
          'throttle_time_ms', 'documentation', 'size', 'partition_size', 'producer_id', 'coordinator', 'brokers', 'controller', 'id_string',
          'start_timestamp', 'last_timestamp', 'transaction_start_time_ms', 'path'}


def plain(value, depth=0):
    """A value without what differs from one cluster to the next."""
    if depth > 8:
        return '...'
    if isinstance(value, str) and value.startswith('[Error'):
        return value.split(':')[0]  # without its text
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode('latin-1')
    if isinstance(value, BaseException):
        return failure(value)
    if hasattr(value, '_asdict'):
        value = value._asdict()
    if isinstance(value, dict):
        pairs = [(str(plain(k, depth + 1)), 'text' if k == 'error' and isinstance(v, str) else plain(v, depth + 1)) for k, v in value.items()]
        return '{' + ', '.join(f'{k}: {v}' for k, v in sorted(pairs, key=str) if k.strip('_') not in HIDDEN) + '}'
    if isinstance(value, (list, tuple, set, frozenset)):
        return '[' + ', '.join(sorted(str(plain(v, depth + 1)) for v in value)) + ']'
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, '__dict__'):
        return plain(dict(vars(value)), depth + 1)
    return type(value).__name__


def failure(error):
    """An error by its name or code: the wording is everybody's own."""
    arg = error.args[0] if error.args else None
    return arg.name() if hasattr(arg, 'name') and callable(arg.name) else type(error).__name__


def settle():
    time.sleep(0.5)


def call(name, f, *args, **kw):
    try:
        print(name, plain(resolve(f(*args, **kw))), flush=True)
    except Exception as e:  # what a client makes of an answer is what is compared
        print(name, 'failed:', failure(e), flush=True)


def until_coordinator(f):
    """Calls f until the coordinator answers: its topic is made by the first request."""
    for _ in range(100):
        try:
            result = f()
        except Exception as e:
            result = e
        if not isinstance(result, Exception) or 'authoriz' in str(result).lower() + type(result).__name__.lower():
            return
        time.sleep(0.1)


def resolve(value):
    """Waits for the futures of confluent-kafka."""
    if hasattr(value, 'result'):
        try:
            return value.result()
        except Exception as e:
            return e
    if isinstance(value, dict):
        return {str(k): resolve(v) for k, v in value.items()}
    return value


def kafka_python(address, mechanism=None, user=None, password=None):
    from kafka import TopicPartition
    from kafka.admin import (ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, ConfigResource, ConfigResourceType, KafkaAdminClient,
                             NewPartitions, NewTopic, ResourcePattern, ResourcePatternFilter, ResourceType,
                             ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion)
    from kafka.structs import OffsetAndMetadata
    login = dict(security_protocol='SASL_PLAINTEXT', sasl_mechanism=mechanism, sasl_plain_username=user, sasl_plain_password=password)
    a = KafkaAdminClient(bootstrap_servers=address, **(login if mechanism else {}))
    tp = TopicPartition('pt', 0)
    call('create_topics', a.create_topics, [NewTopic('pt', 2, 1)])
    settle()
    call('create_topics again', a.create_topics, [NewTopic('pt', 2, 1)])
    call('create_topics validate', a.create_topics, [NewTopic('pt2', 2, 7)], validate_only=True)
    call('create_partitions', a.create_partitions, {'pt': NewPartitions(3)})
    call('create_partitions fewer', a.create_partitions, {'pt': NewPartitions(1)})
    settle()
    call('wait_for_topics', a.wait_for_topics, ['pt'])
    call('list_topics', lambda: [t for t in a.list_topics() if t == 'pt'])
    call('describe_topics', a.describe_topics, ['pt'])
    call('describe_topic_partitions', a.describe_topic_partitions, ['pt'])
    resource = ConfigResource(ConfigResourceType.TOPIC, 'pt', configs={'retention.ms': '5000'})
    call('alter_configs', a.alter_configs, [resource])
    call('alter_configs bad', a.alter_configs, [ConfigResource(ConfigResourceType.TOPIC, 'pt', configs={'retention.ms': 'x'})])
    settle()
    call('describe_configs', a.describe_configs, [ConfigResource(ConfigResourceType.TOPIC, 'pt')])
    call('reset_configs', a.reset_configs, [resource])
    call('list_config_resources', a.list_config_resources)
    call('describe_cluster', lambda: sorted(a.describe_cluster()))
    call('api_versions', a.api_versions)
    call('get_broker_version_data', lambda: type(a.get_broker_version_data(0)).__name__)
    call('describe_features', a.describe_features)
    call('update_features', a.update_features, {'f': 1}, validate_only=True)
    call('describe_metadata_quorum', a.describe_metadata_quorum)
    call('describe_log_dirs', lambda: len(a.describe_log_dirs()))
    call('alter_replica_log_dirs', a.alter_replica_log_dirs, {})
    call('delete_records', a.delete_records, {tp: 0})
    call('list_partition_offsets', a.list_partition_offsets, {tp: -1})
    call('elect_leaders', a.elect_leaders, 0, {'pt': [0]})
    call('alter_partition_reassignments', a.alter_partition_reassignments, {tp: [0]})
    call('list_partition_reassignments', a.list_partition_reassignments)
    until_coordinator(lambda: a.alter_group_offsets('pg', {tp: OffsetAndMetadata(0, '', -1)}))
    call('alter_group_offsets', a.alter_group_offsets, 'pg', {tp: OffsetAndMetadata(0, '', -1)})
    call('list_groups', lambda: [g for g in map(str, map(plain, a.list_groups())) if 'pg' in g])
    call('describe_groups', a.describe_groups, ['pg', 'none'])
    call('describe_groups with rights', a.describe_groups, ['pg'], include_authorized_operations=True)
    call('list_group_offsets', a.list_group_offsets, {'pg': None})
    call('reset_group_offsets', a.reset_group_offsets, 'pg', {tp: -2})
    call('remove_group_members', a.remove_group_members, 'pg', ['nobody'])
    call('delete_group_offsets', a.delete_group_offsets, 'pg', [tp])
    call('delete_groups', a.delete_groups, ['pg', 'none'])
    call('list_transactions', a.list_transactions)
    call('describe_transactions', a.describe_transactions, ['none'])
    call('describe_producers', a.describe_producers, [tp])
    call('find_hanging_transactions', a.find_hanging_transactions)
    acls = [ACL('User:a', '*', ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, 'pt')),
            ACL('User:b', '10.0.0.1', ACLOperation.ALL, ACLPermissionType.DENY, ResourcePattern(ResourceType.GROUP, 'p', ACLResourcePatternType.PREFIXED)),
            ACL('User:a', '*', ACLOperation.CREATE, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.CLUSTER, 'kafka-cluster')),
            ACL('User:a', '*', ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, 'a/b'))]

    def matching(kind, name, pattern):
        return ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, ResourcePatternFilter(kind, name, pattern))
    group, anything = matching(ResourceType.GROUP, 'pg', ACLResourcePatternType.MATCH), matching(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    call('create_acls', a.create_acls, acls)
    settle()
    call('describe_acls', a.describe_acls, anything)
    call('describe_acls of a group', a.describe_acls, group)
    call('delete_acls', a.delete_acls, [group, anything])
    call('alter_user_scram_credentials', a.alter_user_scram_credentials,
         [UserScramCredentialUpsertion('pu', ScramMechanism.SCRAM_SHA_256, 'pw')])
    settle()
    call('describe_user_scram_credentials', a.describe_user_scram_credentials, ['pu', 'none'])
    call('alter_user_scram_credentials delete', a.alter_user_scram_credentials, [UserScramCredentialDeletion('pu', ScramMechanism.SCRAM_SHA_256)])
    call('delete_topics', a.delete_topics, ['pt'])
    called_all(KafkaAdminClient, {'close', 'DEFAULT_CONFIG', 'abort_transaction'})


def confluent_kafka(address, mechanism=None, user=None, password=None):
    from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, TopicCollection, TopicPartition
    from confluent_kafka.admin import (AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient, AlterConfigOpType, ConfigEntry,
                                       ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourcePatternType, ResourceType,
                                       ScramCredentialInfo, ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion)
    login = {'security.protocol': 'SASL_PLAINTEXT', 'sasl.mechanism': mechanism, 'sasl.username': user, 'sasl.password': password}
    a = AdminClient({'bootstrap.servers': address, **(login if mechanism else {})})
    tp = TopicPartition('ct', 0)
    call('create_topics', a.create_topics, [NewTopic('ct', 2, 1)])
    settle()
    call('create_topics again', a.create_topics, [NewTopic('ct', 2, 1), NewTopic('ct2', 2, 7)])
    call('create_partitions', a.create_partitions, [NewPartitions('ct', 3)])
    settle()
    call('list_topics', lambda: {t: len(d.partitions) for t, d in a.list_topics().topics.items() if t == 'ct'})
    call('cluster_id', lambda: type(a.list_topics().cluster_id).__name__)
    call('poll', a.poll, 0)
    call('describe_topics', lambda: len(resolve(a.describe_topics(TopicCollection(['ct'])))['ct'].partitions))
    call('describe_topics with rights', lambda: resolve(a.describe_topics(TopicCollection(['ct']), include_authorized_operations=True))['ct'].authorized_operations)
    call('describe_cluster', lambda: len(a.describe_cluster().result().nodes))
    call('describe_cluster with rights', lambda: a.describe_cluster(include_authorized_operations=True).result().authorized_operations)
    call('alter_configs', a.alter_configs, [ConfigResource(ResourceType.TOPIC, 'ct', set_config={'retention.ms': '5000'})])
    op = ConfigEntry('cleanup.policy', 'compact', incremental_operation=AlterConfigOpType.APPEND)
    call('incremental_alter_configs', a.incremental_alter_configs, [ConfigResource(ResourceType.TOPIC, 'ct', incremental_configs=[op])])
    settle()

    def set_ones():
        found = resolve(a.describe_configs([ConfigResource(ResourceType.TOPIC, 'ct')]))
        return {n: e.value for r in found.values() for n, e in r.items() if not e.is_default}
    call('describe_configs', set_ones)
    call('delete_records', lambda: [r.low_watermark for r in resolve(a.delete_records([TopicPartition('ct', 0, 0)])).values()])
    call('list_offsets', lambda: [r.offset for r in resolve(a.list_offsets({tp: OffsetSpec.latest()})).values()])
    call('elect_leaders', lambda: {str(k): v and v.name() for k, v in a.elect_leaders(ElectionType.PREFERRED, [tp]).result().items()})
    commit = [ConsumerGroupTopicPartitions('cg', [TopicPartition('ct', 0, 0)])]
    until_coordinator(lambda: resolve(a.alter_consumer_group_offsets(commit))['cg'])
    call('alter_consumer_group_offsets', lambda: [p.offset for p in resolve(a.alter_consumer_group_offsets(commit))['cg'].topic_partitions])
    call('list_consumer_groups', lambda: [g.state.name for g in a.list_consumer_groups().result().valid if g.group_id == 'cg'])
    call('list_groups', lambda: [g.id for g in a.list_groups('cg')])
    call('describe_consumer_groups', lambda: [(g.state.name, len(g.members)) for g in resolve(a.describe_consumer_groups(['cg'])).values()])
    call('list_consumer_group_offsets', lambda: [(p.topic, p.offset) for g in resolve(a.list_consumer_group_offsets([
        ConsumerGroupTopicPartitions('cg')])).values() for p in g.topic_partitions])
    call('delete_consumer_groups', a.delete_consumer_groups, ['cg', 'none'])
    acls = [AclBinding(ResourceType.TOPIC, 'ct', ResourcePatternType.LITERAL, 'User:a', '*', AclOperation.READ, AclPermissionType.ALLOW),
            AclBinding(ResourceType.GROUP, 'c', ResourcePatternType.PREFIXED, 'User:b', '10.0.0.1', AclOperation.ALL, AclPermissionType.DENY),
            AclBinding(ResourceType.BROKER, 'kafka-cluster', ResourcePatternType.LITERAL, 'User:a', '*', AclOperation.CREATE, AclPermissionType.ALLOW),
            AclBinding(ResourceType.TOPIC, 'a/b', ResourcePatternType.LITERAL, 'User:a', '*', AclOperation.READ, AclPermissionType.ALLOW)]

    def matching(kind, name, pattern):
        return AclBindingFilter(kind, name, pattern, None, None, AclOperation.ANY, AclPermissionType.ANY)
    group, anything = matching(ResourceType.GROUP, 'cg', ResourcePatternType.MATCH), matching(ResourceType.ANY, None, ResourcePatternType.ANY)
    call('create_acls', lambda: list(resolve(a.create_acls(acls)).values()))
    settle()
    call('describe_acls', a.describe_acls, anything)
    call('describe_acls of a group', a.describe_acls, group)
    call('delete_acls', lambda: list(resolve(a.delete_acls([group, anything])).values()))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    call('alter_user_scram_credentials', a.alter_user_scram_credentials, [UserScramCredentialUpsertion('cu', info, b'pw'),
                                                                          UserScramCredentialDeletion('none', ScramMechanism.SCRAM_SHA_512)])
    settle()
    if AclOperation.DESCRIBE in (a.describe_cluster(include_authorized_operations=True).result().authorized_operations or []):
        # Where this is denied librdkafka 2.16 crashes, whichever the broker.
        call('describe_user_scram_credentials', lambda: [i.mechanism.name for u in resolve(
            a.describe_user_scram_credentials(['cu'])).values() for i in u.scram_credential_infos])
    call('alter_user_scram_credentials delete', a.alter_user_scram_credentials, [UserScramCredentialDeletion('cu', ScramMechanism.SCRAM_SHA_256)])
    call('delete_topics', a.delete_topics, ['ct', 'none'])
    called_all(AdminClient, {'set_sasl_credentials'})


def called_all(client, but):
    """Ends the run when a method of the client is not called here."""
    source = open(__file__).read()
    left = [n for n in dir(client) if not n.startswith('_') and n not in but and f"'{n}'" not in source]
    if left:
        sys.exit(f'not called: {left}')


{'kafka-python': kafka_python, 'confluent-kafka': confluent_kafka}[sys.argv[1]](*sys.argv[2:])
