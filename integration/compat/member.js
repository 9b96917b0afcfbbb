// A member of a consumer group with kafkajs that tells what happens to it, a line an event; see member.py.
const { Kafka, logLevel } = require('kafkajs');

const opts = Object.fromEntries(process.argv.slice(2).map((a) => [a.slice(0, a.indexOf('=')), a.slice(a.indexOf('=') + 1)]));
const say = (...words) => process.stdout.write(words.join(' ') + '\n');

async function main() {
  const kafka = new Kafka({ brokers: opts.bootstrap.split(','), logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100 } });
  const session = Number(opts.session_ms);
  const consumer = kafka.consumer({
    groupId: opts.group, sessionTimeout: session, heartbeatInterval: session / 4, metadataMaxAge: 1000, maxWaitTimeInMs: 200,
    rebalanceTimeout: 10000,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say('assigned', ...Object.values(payload.memberAssignment).flat()));
  await consumer.connect();
  const topic = opts.topic.startsWith('^') ? new RegExp(opts.topic) : opts.topic;
  await consumer.subscribe({ topics: [topic], fromBeginning: opts.reset === 'earliest' });
  await consumer.run({
    autoCommit: opts.commit !== 'specific',
    autoCommitInterval: 100,
    eachBatchAutoResolve: opts.commit !== 'specific',
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, heartbeat }) => {
      for (const message of batch.messages) {
        say('record', message.value.toString());
        resolveOffset(message.offset);
      }
      if (opts.commit === 'sync') await commitOffsetsIfNecessary();
      if (opts.commit === 'specific') {
        const next = (BigInt(batch.lastOffset()) + 1n).toString();
        await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: next, metadata: 'named' }]);
      }
      await heartbeat();
    },
  });
  process.on('SIGTERM', async () => {
    await consumer.disconnect();
    process.exit(0);
  });
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
