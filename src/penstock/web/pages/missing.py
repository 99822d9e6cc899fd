"""An address that leads nowhere, with the way around still there."""

from fastapi import Request
from nicegui import ui

from penstock.web.layout import empty
from penstock.web.urls import ROOT
from penstock.web.viewer import Viewer


async def build(_: Viewer, __: Request) -> None:
    ui.context.client.status_code = 404
    with ui.element("div").classes("ps-card"):
        empty("No such page", f'This address leads nowhere. <a href="{ROOT}/">To the start page</a>')
