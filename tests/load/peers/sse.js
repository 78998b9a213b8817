'use strict';
// A plain Node.js service that pushes events to browsers by server-sent events, as a careful developer writes it:
// an event is rendered once, and each client gets one write. No history, no back-pressure. For measurement only.
//   node sse.js HOST:PORT
const http = require('http');

const MAX_BODY_BYTES = 1 << 20;
const clients = new Set();

function subscribe(request, response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  response.write('event: connected\ndata: {}\n\n');
  clients.add(response);
  response.on('close', () => clients.delete(response));
}

function broadcast(text) {
  const event = JSON.parse(text);
  const frame = Buffer.from(`id: ${event.eventId}\nevent: iceberg-mutation\ndata: ${text}\n\n`);
  for (const client of clients) client.write(frame);
}

function publish(request, response) {
  const pieces = [];
  let bytes = 0;
  request.on('data', (piece) => {
    bytes += piece.length;
    if (bytes > MAX_BODY_BYTES) request.destroy();
    else pieces.push(piece);
  });
  request.on('end', () => {
    broadcast(Buffer.concat(pieces).toString());
    response.writeHead(202).end();
  });
}

const server = http.createServer((request, response) => {
  if (request.method === 'POST') publish(request, response);
  else subscribe(request, response);
});
const [host, port] = process.argv[2].split(':');
server.listen(Number(port), host, 4096);
