import type { FastifyInstance } from 'fastify';
import { listing, membershipsOf, personOf, show, signedIn } from '../screens/index.ts';

/** The organizations of a person, to search and to go to. */
export function organizationPages(app: FastifyInstance): void {
  app.get('/organizations', { preHandler: signedIn(app) }, async (request, reply) =>
    show(request, reply, {
      kind: 'list',
      title: 'Organizations',
      ...listing(request, membershipsOf(personOf(request)), {
        searchLabel: 'Search organizations',
        text: ({ name, slug }) => `${name} ${slug}`,
        columns: [
          {
            title: 'Name',
            cell: ({ name, slug }) => ({ text: name, href: `/setup/o/${slug}` }),
            by: ({ name }) => name,
          },
          { title: 'Slug', cell: ({ slug }) => ({ code: slug }), by: ({ slug }) => slug },
          { title: 'Your profile', cell: ({ profile }) => ({ text: profile }), by: ({ profile }) => profile },
        ],
        row: ({ organization }) => ({ id: organization }),
        empty: { text: 'You belong to no organization at the moment.' },
      }),
    }),
  );
}
