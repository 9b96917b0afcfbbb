import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of a topic with Kafka Streams, exactly once. Words are what blanks separate. It can be killed and started
 * again with the same arguments: bootstrap, application, in, out, state (a folder), standbys (copies of each store). It prints
 * `state STATE` and `tasks ACTIVE STANDBY` when they change.
 */
public class WordCount {
    public static void main(String[] args) throws Exception {
        Map<String, String> opts = new HashMap<>();
        for (String arg : args) {
            int at = arg.indexOf('=');
            opts.put(arg.substring(0, at), arg.substring(at + 1));
        }
        Properties p = new Properties();
        p.put("bootstrap.servers", opts.get("bootstrap"));
        p.put("application.id", opts.get("application"));
        p.put("processing.guarantee", "exactly_once_v2");
        p.put("state.dir", opts.get("state"));
        p.put("commit.interval.ms", "100");
        p.put("num.stream.threads", "2");
        p.put("num.standby.replicas", opts.getOrDefault("standbys", "0"));
        p.put("probing.rebalance.interval.ms", "60000");
        p.put("replication.factor", "3");
        p.put("consumer.auto.offset.reset", "earliest");
        p.put("consumer.session.timeout.ms", "2000");
        p.put("consumer.heartbeat.interval.ms", "500");
        p.put("producer.transaction.timeout.ms", "5000");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(opts.get("in"), Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .filter((key, word) -> !word.isEmpty())
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(opts.get("out"), Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            System.out.flush();
            if (now == KafkaStreams.State.NOT_RUNNING || now == KafkaStreams.State.ERROR) {
                ended.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        String before = "";
        while (!ended.await(200, TimeUnit.MILLISECONDS)) {
            String now = tasks(streams);
            if (!now.equals(before)) {
                System.out.println(now);
                System.out.flush();
            }
            before = now;
        }
    }

    private static String tasks(KafkaStreams streams) {
        int active = 0;
        int standby = 0;
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            active += thread.activeTasks().size();
            standby += thread.standbyTasks().size();
        }
        return "tasks " + active + " " + standby;
    }
}
