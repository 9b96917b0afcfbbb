"""A member of a consumer group that tells what happens to it, a line an event.

usage: member.py kafka-python|confluent-kafka bootstrap=HOST:PORT group=G topic=T [instance=I] reset=earliest|latest
       commit=auto|sync|async|specific session_ms=N

A topic that begins with ^ is a pattern. It prints "gained P ...", "lost P ..." and "record VALUE". It leaves on SIGTERM.
"""
import signal
import sys

running = True


def stop(*_):
    global running
    running = False


def say(word, *rest):
    print(word, *rest, flush=True)


def run_kafka_python(opts):
    import kafka
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.structs import OffsetAndMetadata, TopicPartition

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            say("lost", *[p.partition for p in revoked])

        def on_partitions_assigned(self, assigned):
            say("gained", *[p.partition for p in assigned])

    settings = dict(
        bootstrap_servers=opts["bootstrap"], group_id=opts["group"], auto_offset_reset=opts["reset"],
        enable_auto_commit=opts["commit"] == "auto", auto_commit_interval_ms=100, session_timeout_ms=int(opts["session_ms"]),
        heartbeat_interval_ms=int(opts["session_ms"]) // 4, metadata_max_age_ms=1000)
    if opts.get("instance"):
        settings["group_instance_id"] = opts["instance"]
    consumer = kafka.KafkaConsumer(**settings)
    if opts["topic"].startswith("^"):
        consumer.subscribe(pattern=opts["topic"], listener=Listener())
    else:
        consumer.subscribe([opts["topic"]], listener=Listener())

    def offset_of(record):
        fields = getattr(OffsetAndMetadata, "_fields", ("offset", "metadata"))
        return OffsetAndMetadata(*([record.offset + 1, "named", -1][:len(fields)]))

    while running:
        # Long enough for a whole rebalance: 3.0.12 can lose its assignment when poll gives up in the middle of one.
        polled = consumer.poll(timeout_ms=3000)
        for records in polled.values():
            for record in records:
                say("record", record.value.decode())
        if not polled:
            continue
        try:
            if opts["commit"] == "sync":
                consumer.commit()
            elif opts["commit"] == "async":
                consumer.commit_async()
            elif opts["commit"] == "specific":
                consumer.commit({TopicPartition(p.topic, p.partition): offset_of(rs[-1]) for p, rs in polled.items()})
        except kafka.errors.KafkaError as error:  # a rebalance in between: the records come again
            print(error, file=sys.stderr)
    consumer.close()


def run_confluent_kafka(opts):
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": opts["bootstrap"], "group.id": opts["group"], "auto.offset.reset": opts["reset"],
        "enable.auto.commit": opts["commit"] == "auto", "auto.commit.interval.ms": 100, "session.timeout.ms": int(opts["session_ms"]),
        "heartbeat.interval.ms": int(opts["session_ms"]) // 4, "topic.metadata.refresh.interval.ms": 1000}
    if opts.get("instance"):
        settings["group.instance.id"] = opts["instance"]
    consumer = Consumer(settings)
    consumer.subscribe([opts["topic"]],
                       on_assign=lambda _, ps: say("gained", *[p.partition for p in ps]),
                       on_revoke=lambda _, ps: say("lost", *[p.partition for p in ps]))
    while running:
        polled = [m for m in consumer.consume(500, 0.2) if m.error() is None]
        for record in polled:
            say("record", record.value().decode())
        if not polled:
            continue
        try:
            if opts["commit"] == "sync":
                consumer.commit(asynchronous=False)
            elif opts["commit"] == "async":
                consumer.commit()
            elif opts["commit"] == "specific":
                ends = {(m.topic(), m.partition()): m.offset() + 1 for m in polled}
                consumer.commit(offsets=[TopicPartition(t, p, o) for (t, p), o in ends.items()], asynchronous=False)
        except KafkaException as error:
            print(error, file=sys.stderr)
    consumer.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    {"kafka-python": run_kafka_python, "confluent-kafka": run_confluent_kafka}[sys.argv[1]](
        dict(a.split("=", 1) for a in sys.argv[2:]))
