'use strict';
// A plain Node.js service that pushes events to browsers by WebSocket with the package `ws`, as a careful developer
// writes it: an event is rendered once, and each client gets one send. No history, no back-pressure. For
// measurement only.
//   node websocket.js HOST:PORT
const http = require('http');
const { WebSocketServer, WebSocket } = require('ws');

const MAX_BODY_BYTES = 1 << 20;

const server = http.createServer((request, response) => {
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
});
const sockets = new WebSocketServer({ server, perMessageDeflate: false });
sockets.on('connection', (socket) => socket.on('error', () => socket.terminate()));

function broadcast(text) {
  const event = JSON.parse(text);
  const frame = Buffer.from(`{"type":"event","id":${JSON.stringify(event.eventId)},"data":${text}}`);
  for (const client of sockets.clients) {
    if (client.readyState === WebSocket.OPEN) client.send(frame, { binary: false });
  }
}

const [host, port] = process.argv[2].split(':');
server.listen(Number(port), host, 4096);
