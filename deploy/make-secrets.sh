#!/bin/sh
# Makes what must be secret and differ from site to site, once; what is there already stays.
set -eu
umask 077

if [ ! -s /secrets/secret.key ]; then
	head -c 32 /dev/urandom | base64 >/secrets/secret.key
	chown 65532:65532 /secrets/secret.key
fi
chmod 755 /secrets

if [ ! -s /tls/cert.pem ]; then
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
		-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
		-keyout /tls/key.pem -out /tls/cert.pem
fi
