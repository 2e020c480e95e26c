#!/bin/sh
# Applies the cluster file and makes a first admin with a key. What is there already stays; the key is printed once.
set -eu

mindrouter apply -f /cluster.yaml
if ! mindrouter user list --json | grep -q '"name": "admin"'; then
	mindrouter user create admin --email admin@example.edu --group administrators --role admin
	echo "key: $(mindrouter key create --user admin --name first --scopes inference,admin)"
fi
