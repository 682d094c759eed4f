async def test_it(world):
    print(world.a.ids)
    api = world.runtime.web._server.config.app._api
    print(type(api), vars(api).keys())
