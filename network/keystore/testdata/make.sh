#!/bin/sh
# Makes the stores of this folder anew: with keytool of JDK 17 and OpenSSL 3. All passwords are "secret" unless said.
set -eu
days=36500
rm -f ./*.jks ./*.p12 ./*.pem
kt() { keytool -noprompt -storepass secret "$@" 2>/dev/null; }

# A CA, and a key that it has signed, in each of Java's formats.
kt -genkeypair -keystore ca.p12 -storetype PKCS12 -alias ca -dname "CN=Test CA,O=Barnabas" -keyalg EC -groupname secp256r1 \
  -validity $days -ext bc:c -ext ku:c=keyCertSign
kt -exportcert -keystore ca.p12 -alias ca -rfc -file ca.pem
for kind in jks pkcs12; do
  case $kind in jks) f=server.jks ;; *) f=server.p12 ;; esac
  kt -genkeypair -keystore $f -storetype $kind -alias Server -dname "CN=localhost,O=Barnabas" -keyalg EC -groupname secp256r1 -validity $days
  kt -certreq -keystore $f -alias server -file req.tmp
  kt -gencert -keystore ca.p12 -alias ca -infile req.tmp -rfc -outfile cert.tmp -validity $days -ext san=dns:localhost,ip:127.0.0.1
  kt -importcert -keystore $f -alias caroot -file ca.pem
  kt -importcert -keystore $f -alias server -file cert.tmp
done
kt -genkeypair -keystore keypass.jks -storetype jks -keypass another -alias server -dname "CN=localhost" -keyalg EC -groupname secp256r1 -validity $days
kt -genkeypair -keystore two.p12 -storetype PKCS12 -alias one -dname "CN=one" -keyalg EC -groupname secp256r1 -validity $days
kt -genkeypair -keystore two.p12 -alias two -dname "CN=two" -keyalg RSA -keysize 2048 -validity $days
kt -J-Dkeystore.pkcs12.legacy -genkeypair -keystore legacy.p12 -storetype PKCS12 -alias server -dname "CN=localhost" -keyalg EC -groupname secp256r1 -validity $days
for f in trust.jks trust.p12; do
  kt -importcert -keystore $f -storetype "$(case $f in *.jks) echo JKS ;; *) echo PKCS12 ;; esac)" -alias caroot -file ca.pem
done
keytool -noprompt -storepass secret -J-Dkeystore.pkcs12.macAlgorithm=NONE -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE \
  -importcert -keystore open.p12 -storetype PKCS12 -alias caroot -file ca.pem 2>/dev/null
keytool -noprompt -storepass secret -genseckey -keystore secret.jceks -storetype JCEKS -alias s -keyalg AES -keysize 128 2>/dev/null

# OpenSSL: the same key in PEM and PKCS#12.
openssl pkcs12 -in server.p12 -passin pass:secret -nodes -nocerts 2>/dev/null | openssl pkcs8 -topk8 -nocrypt -out key.pem
cat cert.tmp ca.pem > chain.pem
openssl pkcs8 -topk8 -in key.pem -passout pass:secret -v2 aes-256-cbc -out key-pbes2.pem
openssl pkcs8 -topk8 -in key.pem -passout pass:secret -v1 PBE-SHA1-3DES -out key-3des.pem
openssl ec -in key.pem -out key-ec.pem 2>/dev/null
openssl pkcs12 -export -inkey key.pem -in cert.tmp -certfile ca.pem -name server -passout pass:secret -out openssl.p12
openssl pkcs12 -export -legacy -inkey key.pem -in cert.tmp -certfile ca.pem -name server -passout pass:secret -out openssl-legacy.p12
openssl pkcs12 -export -nokeys -in ca.pem -passout pass:secret -out openssl-certs.p12
rm -f ./*.tmp
