#!/bin/sh
# Makes the certificates of tests anew, in crates/testkit/src/certificates. They are valid for a hundred years, but for those that
# are to be expired. Their keys are public, and good for nothing else.
set -eu
to=$(cd "$(dirname "$0")/../crates/testkit/src/certificates" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

key() {
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null ||
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

# authority NAME
authority() {
    key "$1-key.pem"
    openssl req -x509 -new -key "$1-key.pem" -days 36500 -subj "/CN=Brindle test $1" -out "$1.pem" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
}

# certificate NAME AUTHORITY PURPOSE CN SAN BEGIN END
certificate() {
    key "$1-key.pem"
    openssl req -new -key "$1-key.pem" -subj "/CN=$4" -out request.pem
    mkdir -p issued
    touch issued/index
    echo 'unique_subject = no' >issued/index.attr
    [ -e issued/crlnumber ] || echo 01 >issued/crlnumber
    cat >issued/conf <<CONF
[ca]
default_ca = it
[it]
database = issued/index
crlnumber = issued/crlnumber
new_certs_dir = issued
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
[ext]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = $3
subjectAltName = $5
CONF
    openssl ca -batch -notext -config issued/conf -extensions ext -cert "$2.pem" -keyfile "$2-key.pem" \
        -startdate "$6" -enddate "$7" -in request.pem -out "$1.pem" 2>/dev/null
}

always='20200101000000Z 21200101000000Z'
over='20200101000000Z 20210101000000Z'
host='DNS:localhost,IP:127.0.0.1'
authority ca
authority strange-ca
certificate server ca serverAuth localhost "$host" $always
certificate server-next ca serverAuth localhost "$host" $always
certificate server-expired ca serverAuth localhost "$host" $over
certificate client ca clientAuth one 'DNS:one.example' $always
certificate client-other ca clientAuth other 'DNS:other.example' $always
certificate client-expired ca clientAuth one 'DNS:one.example' $over
certificate stranger strange-ca clientAuth one 'DNS:one.example' $always
certificate client-revoked ca clientAuth one 'DNS:one.example' $always
openssl ca -config issued/conf -cert ca.pem -keyfile ca-key.pem -revoke client-revoked.pem 2>/dev/null
# revoked NAME BEGIN END: the list of those that the authority has taken back.
revoked() {
    openssl ca -config issued/conf -cert ca.pem -keyfile ca-key.pem -gencrl -crl_lastupdate "$2" -crl_nextupdate "$3" \
        -out "$1.pem" 2>/dev/null
}
revoked revoked $always
revoked revoked-expired $over
rm -f request.pem ca-key.pem strange-ca-key.pem strange-ca.pem
cp ./*.pem "$to"
