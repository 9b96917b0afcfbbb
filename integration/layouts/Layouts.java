import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Reads lines of "KEY request|response VERSION HEX", bodies of messages, and prints, a line each, with tabs between them: how
 * many bytes Apache Kafka did not read, the bytes that it writes for what it has read, and what that is.
 */
public class Layouts {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                System.out.println(read(words[0], words[1], Short.parseShort(words[2]), words.length > 3 ? words[3] : ""));
            } catch (Exception e) {
                System.out.println("-1\t\t" + e.toString().replaceAll("\\s", " "));
            }
        }
    }

    private static String read(String key, String kind, short version, String hex) {
        ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(key));
        ApiMessage message = kind.equals("request") ? type.newRequest() : type.newResponse();
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        message.read(new ByteBufferAccessor(bytes), version);
        ByteBuffer again = MessageUtil.toByteBuffer(message, version);
        byte[] written = new byte[again.remaining()];
        again.get(written);
        return bytes.remaining() + "\t" + HexFormat.of().formatHex(written) + "\t" + message.toString().replaceAll("\\s", " ");
    }
}
