import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a consumer group with the Java consumer that tells what happens to it, a line an event; see member.py. */
public class Member {
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> String.valueOf(p.partition())).collect(Collectors.joining(" "));
    }

    private static Properties settings(Map<String, String> opts) {
        int session = Integer.parseInt(opts.get("session_ms"));
        Properties p = new Properties();
        p.put("bootstrap.servers", opts.get("bootstrap"));
        p.put("group.id", opts.get("group"));
        p.put("auto.offset.reset", opts.get("reset"));
        p.put("enable.auto.commit", String.valueOf(opts.get("commit").equals("auto")));
        p.put("auto.commit.interval.ms", "100");
        p.put("session.timeout.ms", String.valueOf(session));
        p.put("heartbeat.interval.ms", String.valueOf(session / 4));
        p.put("metadata.max.age.ms", "1000");
        if (!opts.get("instance").isEmpty()) {
            p.put("group.instance.id", opts.get("instance"));
        }
        if (opts.containsKey("assignor")) {
            p.put("partition.assignment.strategy", opts.get("assignor"));
        }
        return p;
    }

    private static void commit(KafkaConsumer<String, String> consumer, String how, ConsumerRecords<String, String> polled) {
        if (how.equals("sync")) {
            consumer.commitSync();
        } else if (how.equals("async")) {
            consumer.commitAsync();
        } else if (how.equals("specific")) {
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (TopicPartition p : polled.partitions()) {
                List<ConsumerRecord<String, String>> records = polled.records(p);
                ends.put(p, new OffsetAndMetadata(records.get(records.size() - 1).offset() + 1, "named"));
            }
            consumer.commitSync(ends);
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> opts = new HashMap<>();
        for (String arg : args) {
            int at = arg.indexOf('=');
            opts.put(arg.substring(0, at), arg.substring(at + 1));
        }
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(opts), new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                say("lost " + numbers(partitions));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                say("gained " + numbers(partitions));
            }
        };
        String topic = opts.get("topic");
        if (topic.startsWith("^")) {
            consumer.subscribe(Pattern.compile(topic), listener);
        } else {
            consumer.subscribe(List.of(topic), listener);
        }
        try {
            while (true) {
                ConsumerRecords<String, String> polled = consumer.poll(Duration.ofMillis(500));
                polled.forEach(r -> say("record " + r.value()));
                if (polled.isEmpty()) {
                    continue;
                }
                try {
                    commit(consumer, opts.get("commit"), polled);
                } catch (org.apache.kafka.clients.consumer.CommitFailedException | RetriableException e) {
                    System.err.println(e); // a rebalance in between: the records come again
                }
            }
        } catch (WakeupException e) {
            // stopped
        } finally {
            consumer.close();
        }
    }
}
